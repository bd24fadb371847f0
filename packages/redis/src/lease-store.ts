import { ConfigurationError, type LeaseStore } from '@onceward/core'
import { type LeaseOperators, type LeaseRegistration, systemRuntime } from '@onceward/core/ports'
import { type RedisLike, toEvaluate } from './client.ts'
import { GuardSession } from './guard-session.ts'
import type { Namespace } from './keys.ts'
import {
  DEFAULTS,
  markMsOf,
  type RedisLeasesOptions,
  type ResolvedRedisOptions,
  redisOptions,
} from './options.ts'
import { BoundHistory, fixedHistory } from './postgres-history.ts'
import { createScriptRunner, createScripts, type RunScript, type Scripts } from './scripts.ts'
import { createTimeBudget, inBudget } from './time-budget.ts'
import { transitionsIn } from './transitions.ts'

/** Leases in Redis, with the operations for operators of guards without an inbox. */
export interface RedisLeases extends LeaseStore, LeaseOperators {}

/** The default dedup window, for calls without a guard. */
const WINDOW_MS = 1_296_000_000
/** Without an inbox there are no done marks: every event has its own key. */
const UNMARKED = { markMs: 0, bucketSecret: '' }
/** With an inbox PostgreSQL counts attempts. The count in Redis is a hint and expires after a day. */
const HINT_MS = 86_400_000

/**
 * Leases in Redis 6.2 or Valkey. With an inbox they are a fast path and may lose all data; without one they decide.
 *
 * @param redis - ioredis, iovalkey or node-redis; single node, Sentinel or Cluster. The client stays yours: onceward
 * neither closes nor changes it. Several guards can share one client.
 * @throws {@link ConfigurationError} naming the option that cannot work.
 *
 * @example
 * ```ts
 * import { createGuard } from '@onceward/core'
 * import { redisLeases } from '@onceward/redis'
 *
 * // Beside an inbox, Redis answers copies of done events. It may lose everything.
 * const audit = createGuard(
 *   { consumer: 'audit', inbox, leases: redisLeases(redis) },
 *   async ({ key }, { tx }) => {
 *     await tx.query('insert into audit_log (key) values ($1)', [key])
 *   },
 * )
 * ```
 */
export function redisLeases(redis: RedisLike, options: RedisLeasesOptions = {}): RedisLeases {
  return leasesOf(redis, options, createScripts())
}

/** @param scripts - A test passes scripts with a clock it can move. */
export function leasesOf(
  redis: RedisLike,
  options: RedisLeasesOptions,
  scripts: Scripts,
): RedisLeases {
  const resolved = redisOptions(options)
  const run = createScriptRunner(toEvaluate(redis), scripts)
  const { namespace: name, budgetMs = DEFAULTS.aloneMs } = resolved
  const transitions = transitionsIn(run, { ...UNMARKED, name, keepMs: WINDOW_MS })
  const timed = <Answer>(asked: Promise<Answer>): Promise<Answer> =>
    inBudget(asked, { runtime: systemRuntime, budgetMs })
  return {
    open: (registration) => open(run, resolved, registration),
    claim: (claims) => timed(transitions.claim(claims)),
    renew: (held, leaseMs) => timed(transitions.renew(held, leaseMs)),
    complete: (done, rememberMs) => timed(transitions.complete(done, rememberMs)),
    fail: (failed) => timed(transitions.fail(failed)),
    release: (held) => timed(transitions.release(held)),
    bury: (dead, rememberMs) => timed(transitions.bury(dead, rememberMs)),
    replay: (ids) => timed(transitions.replay(ids)),
    forget: (ids) => timed(transitions.forget(ids)),
  }
}

async function open(
  run: RunScript,
  options: ResolvedRedisOptions,
  registration: LeaseRegistration,
): Promise<GuardSession> {
  const isTruth = registration.identity === undefined
  const budgetMs = options.budgetMs ?? (isTruth ? DEFAULTS.aloneMs : DEFAULTS.besideMs)
  const namespace = isTruth
    ? truthNamespace(options, registration)
    : hintNamespace(options, registration)
  const history = isTruth ? fixedHistory(namespace) : new BoundHistory(registration, namespace)
  const timeBudget = createTimeBudget(registration.runtime, budgetMs)
  const isByNeed = !isTruth && options.hold === 'by-need'
  const session = new GuardSession({ run, history, timeBudget, registration, isTruth, isByNeed })
  await session.start()
  return session
}

function truthNamespace(
  { namespace, rememberDoneMs }: ResolvedRedisOptions,
  { dedupWindowMs }: LeaseRegistration,
): Namespace {
  if (rememberDoneMs !== undefined && rememberDoneMs < dedupWindowMs) {
    throw new ConfigurationError(
      `Expected \`rememberDoneMs\` not to be shorter than \`dedupWindowMs\` (${dedupWindowMs}) without an inbox, got \`${rememberDoneMs}\`: only Redis remembers processed events. Leave \`rememberDoneMs\` out.`,
    )
  }
  return { ...UNMARKED, name: namespace, keepMs: dedupWindowMs }
}

function hintNamespace(
  { namespace, rememberDoneMs = DEFAULTS.rememberDoneMs }: ResolvedRedisOptions,
  { dedupWindowMs }: LeaseRegistration,
): Namespace {
  const markMs = markMsOf(rememberDoneMs, dedupWindowMs)
  return { name: namespace, markMs, bucketSecret: '', keepMs: HINT_MS }
}
