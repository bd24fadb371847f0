import { ConfigurationError } from '@onceward/core'
import {
  type BackoffRange,
  type ClassifiedError,
  classifierOf,
  kindsByName,
  messageOf,
  NETWORK_CODES,
} from '@onceward/core/adapter'

/**
 * What a failed call to Redis means.
 *
 * @see https://redis.io/docs/latest/develop/reference/protocol-spec/#simple-errors
 */
export type BrokerErrorKind = 'group-missing' | 'denied' | 'unready' | 'network' | 'unfit' | 'other'

export type BrokerError = ClassifiedError<BrokerErrorKind>

/** Pauses between two tries, milliseconds: from `baseMs`, doubled after each failure, up to `maxMs`; full jitter. */
export const BACKOFF: Readonly<Record<BrokerErrorKind, BackoffRange>> = {
  'group-missing': { baseMs: 50, maxMs: 2_000 },
  denied: { baseMs: 1_000, maxMs: 30_000 },
  unready: { baseMs: 200, maxMs: 2_000 },
  network: { baseMs: 100, maxMs: 2_000 },
  unfit: { baseMs: 1_000, maxMs: 30_000 },
  other: { baseMs: 500, maxMs: 10_000 },
}

const KIND_OF_CODE: ReadonlyMap<string, BrokerErrorKind> = kindsByName({
  // Flushed, failed over or deleted.
  'group-missing': ['NOGROUP', 'UNBLOCKED'],
  denied: ['NOPERM', 'NOAUTH', 'WRONGPASS', 'DENIED'],
  unready: [
    ...['LOADING', 'READONLY', 'MASTERDOWN', 'CLUSTERDOWN', 'TRYAGAIN', 'MOVED', 'ASK'],
    ...['BUSY', 'OOM', 'MISCONF', 'NOREPLICAS'],
  ],
  network: [...NETWORK_CODES, 'NR_CLOSED', 'CONNECTION_BROKEN'],
  unfit: ['WRONGTYPE', 'CROSSSLOT'],
  other: [],
})

const CONNECTION_TEXT =
  /Connection is closed|Socket closed|The client is closed|ClientClosed|DisconnectsClient|max retries per request|enableOfflineQueue|Failed to refresh slots|None of startup nodes|All sentinels are unreachable|Command timed out/i

/** Classifies every value that a client may throw. */
export const classifyError: (error: unknown) => BrokerError = classifierOf((error) => {
  const text = messageOf(error)
  const codes = [Reflect.get(Object(error), 'code'), ...codesOf(text)]
  const known = codes.map((code) => KIND_OF_CODE.get(String(code))).find(Boolean)
  const kind = known ?? (CONNECTION_TEXT.test(text) ? 'network' : 'other')
  return { kind, text }
})

/** A script that fails quotes the error of its command: as it is, or behind its own. */
function codesOf(text: string): readonly string[] {
  // Redis 7.0, and then Redis from 7.2 and Valkey.
  const isDenied = /The user executing the script|ACL failure in script/.test(text)
  const [, first = ''] = /^-?([A-Z]+)\b/.exec(text) ?? []
  const [, quoted = ''] = /(?:^|[\s:])-([A-Z]{3,})\b/.exec(text) ?? []
  return [isDenied ? 'NOPERM' : '', first === 'ERR' ? '' : first, quoted]
}

/** The {@link ConfigurationError} of an error that another stream or setting ends, and no retry. */
export function unfitError(error: unknown, stream: string): ConfigurationError | undefined {
  const { kind, text } = classifyError(error)
  if (kind !== 'unfit') return undefined
  const isOfSlots = text.includes('CROSSSLOT')
  const fix = isOfSlots
    ? `On a cluster its helper keys must be in its slot: call it \`{${stream}}\`, and leave \`keyPrefix\` out.`
    : 'Give the key of a stream.'
  return new ConfigurationError(`The stream ${stream} cannot be consumed (${text}). ${fix}`, {
    cause: error,
  })
}
