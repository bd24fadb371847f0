import {
  ConfigurationError,
  type LeaseOperators,
  type LeaseRegistration,
  type LeaseStore,
  systemRuntime,
} from '@onceward/core'
import { type RedisLike, toEvaluate } from './client.ts'
import { RedisSession } from './guard-session.ts'
import type { Namespace } from './keys.ts'
import {
  DEFAULTS,
  type RedisLeasesOptions,
  type ResolvedRedisOptions,
  redisOptions,
} from './options.ts'
import { BoundHistory, ownHistory } from './postgres-history.ts'
import { createRunBatch, type RunBatch } from './run-script.ts'
import { createScripts, type Scripts } from './scripts.ts'
import { createPatience, inBudget } from './time-budget.ts'
import { verbsOf } from './transitions.ts'

/** Leases in Redis, and what operators may do to events of guards without an inbox. */
export interface RedisLeases extends LeaseStore, LeaseOperators {}

/** The default dedup window, for use without a guard. */
const WINDOW_MS = 1_296_000_000
/** Beside an inbox Postgres counts: what Redis knows of a claim is a hint, and gone after a day. */
const HINT_MS = 86_400_000

/**
 * Leases in Redis 6.2 or Valkey: beside an inbox the fast path, which may lose everything; without one the truth.
 *
 * @param redis - ioredis, iovalkey or node-redis; single node, Sentinel or Cluster. It stays yours: it is neither
 * closed nor changed. For several guards one client is enough.
 * @throws {@link ConfigurationError} naming the option that cannot work.
 */
export function redisLeases(redis: RedisLike, options: RedisLeasesOptions = {}): RedisLeases {
  return leasesOf(redis, options, createScripts())
}

/** @param scripts - Of a test, whose clock it moves. */
export function leasesOf(
  redis: RedisLike,
  options: RedisLeasesOptions,
  scripts: Scripts,
): RedisLeases {
  const resolved = redisOptions(options)
  const run = createRunBatch(toEvaluate(redis), scripts)
  const { namespace: name, budgetMs = DEFAULTS.aloneMs } = resolved
  const verbs = verbsOf(run, { name, markMs: 0, keepMs: WINDOW_MS })
  const timed = <Answer>(asked: Promise<Answer>): Promise<Answer> =>
    inBudget(asked, { runtime: systemRuntime, budgetMs })
  return {
    open: (registration) => open(run, resolved, registration),
    claim: (claims) => timed(verbs.claim(claims)),
    renew: (held, leaseMs) => timed(verbs.renew(held, leaseMs)),
    complete: (done, rememberMs) => timed(verbs.complete(done, rememberMs)),
    fail: (failed) => timed(verbs.fail(failed)),
    release: (held) => timed(verbs.release(held)),
    bury: (dead, rememberMs) => timed(verbs.bury(dead, rememberMs)),
    replay: (ids) => timed(verbs.replay(ids)),
    forget: (ids) => timed(verbs.forget(ids)),
  }
}

async function open(
  run: RunBatch,
  options: ResolvedRedisOptions,
  registration: LeaseRegistration,
): Promise<RedisSession> {
  const isTruth = registration.identity === undefined
  const budgetMs = options.budgetMs ?? (isTruth ? DEFAULTS.aloneMs : DEFAULTS.besideMs)
  const namespace = isTruth
    ? truthNamespace(options, registration)
    : hintNamespace(options, registration)
  const history = isTruth ? ownHistory(namespace) : new BoundHistory(registration, namespace)
  const patience = createPatience(registration, budgetMs)
  const session = new RedisSession({ run, history, patience, registration, isTruth })
  await session.start()
  return session
}

function truthNamespace(
  { namespace, rememberDoneMs }: ResolvedRedisOptions,
  { dedupWindowMs }: LeaseRegistration,
): Namespace {
  if (rememberDoneMs !== undefined && rememberDoneMs < dedupWindowMs) {
    throw new ConfigurationError(
      `Expected \`rememberDoneMs\` not to be shorter than \`dedupWindowMs\` (${dedupWindowMs}) without an inbox, got \`${rememberDoneMs}\`: nobody else remembers what was done. Leave it out.`,
    )
  }
  return { name: namespace, markMs: 0, keepMs: dedupWindowMs }
}

function hintNamespace(
  { namespace, rememberDoneMs = DEFAULTS.rememberDoneMs }: ResolvedRedisOptions,
  { dedupWindowMs }: LeaseRegistration,
): Namespace {
  // Two generations: an event must not be remembered here longer than in Postgres for long.
  return { name: namespace, markMs: Math.min(rememberDoneMs, dedupWindowMs), keepMs: HINT_MS }
}
