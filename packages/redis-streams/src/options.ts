import { randomBytes } from 'node:crypto'
import { hostname } from 'node:os'
import type { ConsumeOptions, RunOptions } from '@onceward/core'
import {
  CONSUME_NAMES,
  type GuardSettings,
  type KnownNames,
  quoted,
  RUN_DEFAULTS,
  RUN_NAMES,
  type RunSettings,
  rangeProblems,
  refuseProblems,
  refuseUnknownOptions,
  resolveRunOptions,
  runOptionProblems,
  typeProblems,
} from '@onceward/core/adapter'

export interface StreamOptions {
  /** The key of the stream, or of several. On a cluster each has a slot of its own. */
  readonly stream: string | readonly string[]
  /**
   * The consumer group. If it is missing, it is created at the first entry of the stream.
   *
   * @defaultValue the guard's `consumer`
   */
  readonly group?: string | undefined
  /**
   * Where dead messages go: an entry is added to that stream, with fields that give the reason, and this one is acked when
   * that is recorded. If omitted, they are only in the table `failed_events`. Required without an inbox, where adding and
   * acking are one step; on a cluster only if both streams have the same tag (`{orders}`, `{orders}.dead`).
   */
  readonly deadLetter?: { readonly stream: string } | undefined
  /**
   * How long an entry must not have been renewed before another consumer takes it, milliseconds, 1 000–43 200 000. It is
   * renewed until it is settled, so it bounds how soon the entry of a dead process returns, not how long a handler may
   * take.
   *
   * @defaultValue the guard's `leaseMs` and a tenth more, at least a second, so that a lease is free when the entry returns
   */
  readonly claimIdleMs?: number | undefined
  /**
   * Longest wait for which an entry is held in memory, and renewed, milliseconds, 0–60 000. For a longer one it leaves the
   * pending list and waits in a sorted set beside the stream (`{orders}:onceward:parked:<group>`).
   *
   * @defaultValue 10 000
   */
  readonly holdMs?: number | undefined
  /**
   * The field that is the body; all others are headers. An entry with a single field has that as its body. Of an entry
   * with several fields and without this one, all fields are the body, as a JSON object, and headers as well.
   *
   * @defaultValue `'payload'`
   */
  readonly bodyField?: string | undefined
  /**
   * The field that is the ordering key: entries with the same value run one at a time in each process, in their order. One
   * that is deferred does not hold back later ones.
   */
  readonly orderingField?: string | undefined
  /**
   * Keeps settled entries in the stream, for other groups, readers by XREAD, or to read them again. Your own XADD must then
   * trim it. Otherwise an entry is deleted with its ack, so the stream holds what is not done. A stream with several groups
   * is refused then. If the group is missing and the stream has entries already, this option must be given.
   *
   * @defaultValue `false`
   */
  readonly keepEntries?: boolean | undefined
}

export interface ConsumeStreamOptions extends ConsumeOptions, StreamOptions {
  /**
   * The name of this process in the group. No two processes may have the same one at a time.
   *
   * @defaultValue host name, process id and a random part
   */
  readonly consumerName?: string | undefined
}

/** `batch.lingerMs` has no effect here: your own XREADGROUP decides which entries come together. */
export interface WrapStreamOptions extends RunOptions, StreamOptions {
  /** The name with which your own loop reads. No two processes may have the same one at a time. */
  readonly consumerName: string
}

/** Every default of this package, in milliseconds where the name says so. */
export const DEFAULTS: Readonly<
  Record<'batchSize' | 'lingerMs' | 'drainMs' | 'holdMs', number> & {
    bodyField: string
    keepEntries: boolean
  }
> = Object.freeze({ ...RUN_DEFAULTS, holdMs: 10_000, bodyField: 'payload', keepEntries: false })

export const LONGEST_IDLE_MS = 43_200_000

/** Options after defaults and checks. */
export interface Settings extends RunSettings {
  readonly streams: readonly string[]
  /** The streams, for logs. */
  readonly queue: string
  readonly group: string
  /** The guard's name of the consumer. */
  readonly consumer: string
  readonly consumerName: string
  readonly deadLetter: { readonly stream: string } | undefined
  readonly claimIdleMs: number
  /** Period of the renewals. */
  readonly renewMs: number
  readonly holdMs: number
  readonly bodyField: string
  readonly orderingField: string | undefined
  readonly keepEntries: boolean
  /** The user has said whether entries are kept. */
  readonly isKeepingSaid: boolean
}

const OWN_NAMES: KnownNames<StreamOptions & { consumerName?: string }> = {
  stream: true,
  group: true,
  consumerName: true,
  deadLetter: true,
  claimIdleMs: true,
  holdMs: true,
  bodyField: true,
  orderingField: true,
  keepEntries: true,
}
const WRAP_NAMES: KnownNames<WrapStreamOptions> = { ...RUN_NAMES, ...OWN_NAMES }
const CONSUMER_NAMES: KnownNames<ConsumeStreamOptions> = { ...CONSUME_NAMES, ...OWN_NAMES }
const TARGET_NAMES = ['stream']

/** @throws {@link ConfigurationError} for names that `consumeStream` does not have. */
export function checkConsumeNames(options: ConsumeStreamOptions): void {
  refuseUnknownOptions('consumeStream', options, CONSUMER_NAMES, TARGET_NAMES)
}

/** @throws {@link ConfigurationError} for names that `wrapStream` does not have, and without a `consumerName`. */
export function checkWrapNames(options: WrapStreamOptions): void {
  refuseUnknownOptions('wrapStream', options, WRAP_NAMES, TARGET_NAMES)
  refuseProblems(
    options.consumerName === undefined
      ? ['Expected `consumerName` to be the name with which your own loop reads, got undefined.']
      : [],
  )
}

/** @throws {@link ConfigurationError} with every problem at once. */
export function resolveSettings(options: ConsumeStreamOptions, guard: GuardSettings): Settings {
  refuseProblems(problemsOf(options, guard))
  const { leaseMs } = guard
  const { stream, group, consumerName, deadLetter, orderingField } = options
  const streams = [...new Set([stream].flat())]
  const claimIdleMs = options.claimIdleMs ?? leaseMs + Math.max(1_000, Math.ceil(leaseMs / 10))
  return {
    streams,
    queue: streams.join(','),
    group: group ?? guard.consumer,
    consumer: guard.consumer,
    consumerName: consumerName ?? `${hostname()}-${process.pid}-${randomBytes(4).toString('hex')}`,
    deadLetter,
    claimIdleMs: Math.min(claimIdleMs, LONGEST_IDLE_MS),
    renewMs: Math.floor(Math.min(claimIdleMs, LONGEST_IDLE_MS) / 3),
    holdMs: options.holdMs ?? DEFAULTS.holdMs,
    bodyField: options.bodyField ?? DEFAULTS.bodyField,
    orderingField,
    keepEntries: options.keepEntries ?? DEFAULTS.keepEntries,
    isKeepingSaid: options.keepEntries !== undefined,
    ...resolveRunOptions(options, guard),
  }
}

function problemsOf(options: ConsumeStreamOptions, guard: GuardSettings): string[] {
  const { group, consumerName, bodyField, orderingField } = options
  const streams: readonly unknown[] = [options.stream].flat()
  return [
    ...(streams.length === 0 ? ['Expected `stream` to name a stream, got an empty list.'] : []),
    ...streams.flatMap((stream) => nameProblems('stream', stream ?? '')),
    ...Object.entries({ group, consumerName, bodyField, orderingField }).flatMap((entry) =>
      nameProblems(...entry),
    ),
    ...deadLetterProblems(options, streams, guard),
    ...typeProblems('keepEntries', options.keepEntries, 'boolean'),
    ...rangeProblems('claimIdleMs', options.claimIdleMs, [1_000, LONGEST_IDLE_MS]),
    ...rangeProblems('holdMs', options.holdMs, [0, 60_000]),
    ...runOptionProblems(options),
  ]
}

export function nameProblems(name: string, value: unknown): string[] {
  if (value === undefined || (typeof value === 'string' && value !== '')) return []
  return [`Expected \`${name}\` to be text, and not empty, got ${quoted(value)}.`]
}

function deadLetterProblems(
  { deadLetter }: ConsumeStreamOptions,
  streams: readonly unknown[],
  guard: GuardSettings,
): string[] {
  if (deadLetter === undefined) {
    if (guard.hasInbox) return []
    return [
      'Expected `deadLetter` to be `{ stream }`, got undefined: without an inbox there is no other place for a dead ' +
        'message.',
    ]
  }
  if (typeof deadLetter !== 'object' || deadLetter === null) {
    return [`Expected \`deadLetter\` to be \`{ stream }\`, got ${quoted(deadLetter)}.`]
  }
  const problems = nameProblems('deadLetter.stream', deadLetter.stream ?? '')
  if (problems.length === 0 && streams.includes(deadLetter.stream)) {
    problems.push(
      `Expected \`deadLetter.stream\` to be another stream than \`stream\`, got \`${deadLetter.stream}\` for both: a dead ` +
        'message would come back again and again.',
    )
  }
  return problems
}
