// Parts of the command line `onceward`. Not for users.
import type { EventId } from '@onceward/core/ports'
import { type RedisLike, toEvaluate } from './client.ts'
import { type Finding, selfTest } from './doctor.ts'
import { boundTo, type Namespace } from './keys.ts'
import { DEFAULTS, markMsOf, redisOptions } from './options.ts'
import { createScriptRunner, createScripts, type RunScript } from './scripts.ts'

export type { Finding } from './doctor.ts'

/** Which keys are an event's. */
export interface InspectOptions {
  /** The identity of the PostgreSQL history, as the inbox reads it; undefined for guards without an inbox. */
  readonly identity: string | undefined
  readonly namespace?: string | undefined
  /** As the guards have it. Done marks of another `rememberDoneMs` are not found. */
  readonly rememberDoneMs?: number | undefined
  readonly dedupWindowMs: number
}

/** What Redis knows of an event. */
export interface InspectedEvent {
  /** `unreadable`: another program's key, or one of another release. */
  readonly kind: 'absent' | 'in-progress' | 'waiting' | 'done' | 'dead' | 'unreadable'
  /** It is remembered as done, beside the key of the event. */
  readonly isMarked: boolean
  /** Of the lease or of the wait; negative when it is over. */
  readonly remainingMs: number
  readonly attempt: number
  /** How the claim was taken, or why the event is dead. */
  readonly detail: string
}

const KINDS: Readonly<Record<string, InspectedEvent['kind']>> = {
  '': 'absent',
  p: 'in-progress',
  w: 'waiting',
  d: 'done',
  x: 'dead',
}

const runnerOf = (client: RedisLike): RunScript =>
  createScriptRunner(toEvaluate(client), createScripts())

/** Reads what Redis knows of an event. Changes nothing. */
export async function inspectEvent(
  client: RedisLike,
  id: EventId,
  options: InspectOptions,
): Promise<InspectedEvent> {
  const namespace = namespaceOf(options)
  const entries = [{ id, args: [] }]
  const [answer] = await runnerOf(client)({ script: 'inspect', namespace, entries })
  const [kind, marked, remainingMs, attempt, detail] = Array.isArray(answer) ? answer : []
  return {
    kind: KINDS[String(kind)] ?? 'unreadable',
    isMarked: Number(marked) === 1,
    remainingMs: Number(remainingMs),
    attempt: Number(attempt),
    detail: String(detail),
  }
}

function namespaceOf(options: InspectOptions): Namespace {
  const { identity, dedupWindowMs, ...rest } = options
  const { namespace: name, rememberDoneMs = DEFAULTS.rememberDoneMs } = redisOptions(rest)
  const unbound = { name, bucketSecret: '', keepMs: dedupWindowMs }
  if (identity === undefined) return { ...unbound, markMs: 0 }
  return boundTo(identity, { ...unbound, markMs: markMsOf(rememberDoneMs, dedupWindowMs) })
}

/**
 * Claims a test event twice and reads the server's settings, as a guard does when it starts.
 *
 * @param options.isTruth - Guards without an inbox use this Redis, so only Redis remembers their events.
 * @throws {@link ConfigurationError} when claims do not exclude each other, and when the server is too old.
 */
export function examineRedis(
  client: RedisLike,
  options: { readonly isTruth: boolean; readonly namespace?: string | undefined },
): Promise<readonly Finding[]> {
  const { namespace: name } = redisOptions({ namespace: options.namespace })
  // Done marks need rights of their own.
  const markMs = options.isTruth ? 0 : DEFAULTS.rememberDoneMs
  const namespace = { name, markMs, bucketSecret: '', keepMs: 60_000 }
  return selfTest({ run: runnerOf(client), namespace, isTruth: options.isTruth })
}
