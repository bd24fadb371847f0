import type { DeadLetterReason, Json } from '@onceward/core'
import type {
  Claim,
  ClaimResult,
  DoneMark,
  EventId,
  Held,
  HeldAnswer,
  LeaseOperators,
  LeaseRegistration,
  WriteMarks,
} from '@onceward/core/ports'
import { fromJsonText, toJsonText } from '@onceward/core/ports'
import { fingerprintBytes, keyText, markBytes, marksPattern, type Namespace } from './keys.ts'
import type { RunScript, ScriptEntry } from './scripts.ts'

/** Completed but not remembered, because another program's key is where the done mark belongs. */
const HELD_UNMARKED = 2

/** The transitions of the state machine in one namespace of Redis. The Lua scripts decide. */
export interface Transitions extends LeaseOperators {
  claim(claims: readonly Claim[]): Promise<readonly ClaimResult[]>
  renew(held: readonly Held[], leaseMs: number): Promise<readonly HeldAnswer[]>
  complete(
    done: readonly (Held & { readonly result?: Json | undefined })[],
    rememberMs: number,
  ): Promise<readonly HeldAnswer[]>
  /** Beside an inbox: remembers events that had no claim. */
  remember: WriteMarks
  fail(failed: readonly (Held & { readonly delayMs: number })[]): Promise<readonly HeldAnswer[]>
  release(held: readonly Held[]): Promise<readonly HeldAnswer[]>
  bury(
    dead: readonly (Held & { readonly reason: DeadLetterReason })[],
    rememberMs: number,
  ): Promise<readonly HeldAnswer[]>
}

export function transitionsIn(
  run: RunScript,
  namespace: Namespace,
  onForeignKey: OnForeignKey = () => undefined,
): Transitions {
  const held = async (
    script: 'renew' | 'complete' | 'remember' | 'mark' | 'fail' | 'release' | 'bury',
    entries: readonly ScriptEntry[],
    common: readonly string[] = [],
  ): Promise<readonly HeldAnswer[]> => {
    const answers = await run({ script, namespace, common, entries })
    return answers.map((answer, index) => {
      const id = entries[index]?.id
      if (Number(answer) === HELD_UNMARKED && id !== undefined) {
        onForeignKey(marksPattern(namespace, id))
      }
      return Number(answer) === 0 ? 'lost' : 'held'
    })
  }
  const operator = async (
    script: 'replay' | 'forget',
    ids: readonly EventId[],
  ): Promise<readonly boolean[]> => {
    const entries = ids.map((id) => ({ id, args: [] }))
    return (await run({ script, namespace, entries })).map((answer) => Number(answer) === 1)
  }
  return {
    claim: async (claims) => {
      const entries = claims.map((claim) => ({ id: claim.id, args: claimArguments(claim) }))
      const results = (await run({ script: 'claim', namespace, entries })).map(toClaimResult)
      for (const [index, { id }] of claims.entries()) {
        if (results[index]?.kind === 'unknown') onForeignKey(keyText(namespace, id))
      }
      return results
    },
    renew: (all, leaseMs) => held('renew', owners(all), [wholeMs(leaseMs)]),
    complete: (done, rememberMs) =>
      held(
        'complete',
        done.map(({ id, ownerToken, result }) => ({ id, args: [ownerToken, jsonOf(result)] })),
        [wholeMs(rememberMs)],
      ),
    remember: (done, rememberMs) => {
      const common = [wholeMs(rememberMs)]
      const plain = done.filter(({ result }) => result === undefined).map(toMark)
      const others = done.filter(({ result }) => result !== undefined).map(toResultEntry)
      return Promise.all([held('mark', plain, common), held('remember', others, common)])
    },
    fail: (failed) =>
      held(
        'fail',
        failed.map(({ id, ownerToken, delayMs }) => ({ id, args: [ownerToken, wholeMs(delayMs)] })),
      ),
    release: (all) => held('release', owners(all)),
    bury: (dead, rememberMs) =>
      held(
        'bury',
        dead.map(({ id, ownerToken, reason }) => ({ id, args: [ownerToken, reason] })),
        [wholeMs(rememberMs)],
      ),
    replay: (ids) => operator('replay', ids),
    forget: (ids) => operator('forget', ids),
  }
}

const owners = (all: readonly Held[]): readonly ScriptEntry[] =>
  all.map(({ id, ownerToken }) => ({ id, args: [ownerToken] }))

const toMark = ({ fingerprint, id }: DoneMark): ScriptEntry => ({
  ...{ id, args: [markBytes(id, fingerprint)] },
})

const toResultEntry = ({ fingerprint, id, result }: DoneMark): ScriptEntry => ({
  ...{ id, args: [fingerprintBytes(fingerprint), jsonOf(result)] },
})

const wholeMs = (ms: number): string => String(Math.max(0, Math.ceil(ms)))

/** The empty text means no result. A JSON text is never empty and contains no NUL or lone surrogate unescaped. */
const jsonOf = (result: Json | undefined): string =>
  result === undefined ? '' : toJsonText(result)

function claimArguments(claim: Claim): readonly (string | Buffer)[] {
  const { fingerprint, leaseMs, maxAttempts = 0, ownerToken } = claim
  return [fingerprintBytes(fingerprint), ownerToken, wholeMs(leaseMs), String(maxAttempts)]
}

function toClaimResult(answer: unknown): ClaimResult {
  const [kind, first, second] = (Array.isArray(answer) ? answer : []).map(textOf)
  switch (kind) {
    case 'acquired':
      return { kind, by: first as 'first' | 'takeover' | 'retry', attempt: Number(second) }
    case 'in-progress':
    case 'not-due':
      return { kind, remainingMs: Number(first) }
    case 'duplicate':
      return first === undefined ? { kind, result: undefined } : withResult(first)
    case 'dead':
      return { kind, reason: first as DeadLetterReason }
    case 'conflict':
      return { kind }
    default:
      return { kind: 'unknown' }
  }
}

/** Like any other entry that cannot be read, a result that is not JSON must not fail the rest of its batch. */
function withResult(json: string): ClaimResult {
  try {
    return { kind: 'duplicate', result: fromJsonText(json) as Json }
  } catch {
    return { kind: 'unknown' }
  }
}

/** Some clients can be configured to answer numbers as strings, and strings as buffers. */
function textOf(value: unknown): string | undefined {
  return value === null ? undefined : String(value)
}

/** Called with a key under our namespace that onceward cannot read: another type or format, or cut short. */
export type OnForeignKey = (key: string) => void

const PAUSE_MS = 60_000

/** Logs at most once a minute, because another version of onceward may have left thousands of such keys. */
export function createForeignKeyReport(registration: LeaseRegistration): OnForeignKey {
  const { consumer, identity, logger, runtime } = registration
  const effect =
    identity === undefined ? 'cannot run until the key is gone' : 'are decided by PostgreSQL'
  const remedy = 'find its owner with TYPE and GET, and DEL the key if it is not needed'
  let loggedAtMs = Number.NEGATIVE_INFINITY
  let since = 0
  return (key) => {
    since += 1
    const nowMs = runtime.monotonic()
    if (nowMs - loggedAtMs < PAUSE_MS) return
    const fields = { consumer, key, count: since, remedy }
    logger.warn(
      fields,
      `onceward cannot read a key under its namespace in Redis; events of this key ${effect}`,
    )
    loggedAtMs = nowMs
    since = 0
  }
}
