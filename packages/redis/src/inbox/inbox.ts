import { randomBytes, randomUUID } from 'node:crypto'
import { ConfigurationError, type Inbox } from '@onceward/core'
import { isBeingPublished, replayed, UNPUBLISHED } from '@onceward/core/adapter'
import {
  type ConsumerRegistration,
  type DeadLetter,
  type DeadLetterRef,
  systemRuntime,
} from '@onceward/core/ports'
import { type RedisLike, settingOf, toEvaluate } from '../client.ts'
import { demandVersion, durabilityFindings, findings } from '../doctor.ts'
import { needsOneNode } from '../errors.ts'
import { clock } from '../lua/clock.ts'
import { inBudget } from '../time-budget.ts'
import { type InboxCalls, inboxCalls, type Opened, openInbox } from './calls.ts'
import type { RedisTransaction } from './handle.ts'
import { InboxKeys, nameOf, refOf } from './keys.ts'
import { createInboxScripts, type InboxScripts } from './lua.ts'
import { inboxOptions, type RedisInboxOptions } from './options.ts'
import { letterOf, type Reading, type Refused, type Trouble } from './record.ts'
import { type Decision, Records } from './records.ts'
import { RedisInboxSession } from './session.ts'
import { isLetter } from './states.ts'

/** An inbox in Redis, with its dead letters: no table and no command line has them. */
export interface RedisInbox extends Inbox<RedisTransaction> {
  /**
   * Dead-lettered events and refused messages of a consumer, oldest first.
   *
   * @param most - How many at most. @defaultValue 100
   */
  deadLetters(consumer: string, most?: number): Promise<readonly DeadLetter[]>
  /** Parks a dead letter, due now: a running guard of its consumer runs it. False if it is none, or is being published. */
  replay(consumer: string, ref: DeadLetterRef): Promise<boolean>
  /** Deletes a dead letter for good; a copy that the broker still has runs again. False if it is none, or is being published. */
  discard(consumer: string, ref: DeadLetterRef): Promise<boolean>
}

const MOST_LETTERS = 100

/**
 * An inbox for consumers whose business data is in Redis: what the handler writes through `tx`, and the mark that the event is
 * done, are applied by one script, or not at all.
 *
 * Its promise is as durable as this Redis: a Redis that loses a second of writes loses their events' effects together with
 * their marks, so redelivered events run again, and what is not redelivered is lost. Use `appendonly yes`,
 * `appendfsync always` and `maxmemory-policy noeviction`. Effects in Postgres need `pgInbox`.
 *
 * @param redis - ioredis, iovalkey or node-redis; single node, Sentinel or Cluster, Redis 6.2 or Valkey. The client stays
 * yours: onceward neither closes nor changes it.
 * @throws {@link ConfigurationError} naming the option that cannot work.
 *
 * @example
 * ```ts
 * import { createGuard } from '@onceward/core'
 * import { redisInbox } from '@onceward/redis'
 *
 * const takings = createGuard(
 *   { consumer: 'takings', inbox: redisInbox(redis, { hashTag: 'shop' }), schema: OrderPlaced },
 *   async ({ payload: { orderId, cents } }, { tx }) => {
 *     tx.hIncrBy('{shop}takings', orderId, cents)
 *   },
 * )
 * ```
 */
export function redisInbox(redis: RedisLike, options: RedisInboxOptions = {}): RedisInbox {
  return inboxOf(redis, options, createInboxScripts(clock))
}

/** @param scripts - A test passes scripts with a clock it can move. */
export function inboxOf(
  redis: RedisLike,
  options: RedisInboxOptions,
  scripts: InboxScripts,
): RedisInbox {
  const keys = new InboxKeys(inboxOptions(options))
  const calls = inboxCalls(toEvaluate(redis, 'redisInbox'), scripts)
  let isTold = false
  const recordsOf = (consumer: string): Records =>
    new Records(calls.call, keys, { consumer, dedupWindowMs: 0 })
  return {
    open: async (registration) => {
      const opened = await open(calls, keys, registration)
      // Guards that share an inbox have one server.
      if (!isTold) await warnOfSettings(redis, opened.info, registration)
      isTold = true
      return opened.session
    },
    deadLetters: async (consumer, most = MOST_LETTERS) => {
      const records = recordsOf(consumer)
      const names = await records.letters(most)
      const { all } = await records.read(names)
      return all.flatMap(({ stored }, index) =>
        isLetter(stored) ? [letterOf(stored, refOf(names[index] as string))] : [],
      )
    },
    replay: (consumer, ref) =>
      operate(recordsOf(consumer), ref, (record, nowMs) =>
        record.kind === 'refused'
          ? { ...record, ...UNPUBLISHED, parked: true }
          : { ...record, ...replayed(nowMs) },
      ),
    discard: (consumer, ref) => operate(recordsOf(consumer), ref, () => undefined),
  }
}

async function operate(
  records: Records,
  ref: DeadLetterRef,
  become: (record: Trouble | Refused, nowMs: number) => Trouble | Refused | undefined,
): Promise<boolean> {
  const decide = ({ stored }: Reading, _: number, nowMs: number): Decision<boolean> => {
    if (!isLetter(stored) || isBeingPublished(stored, nowMs)) return { answer: false }
    const change = { record: become(stored, nowMs), lockedBy: '-' }
    return { answer: true, ifLocked: false, change }
  }
  const [answer] = await records.change([nameOf(ref)], decide)
  return answer ?? false
}

async function open(
  calls: InboxCalls,
  keys: InboxKeys,
  registration: ConsumerRegistration,
): Promise<{ readonly session: RedisInboxSession; readonly info: Opened['info'] }> {
  const { consumer, fingerprintRule, logger } = registration
  const secret = randomBytes(32).toString('base64')
  const opened = await openInbox(calls.call, {
    keys: [keys.settings, keys.consumers],
    args: [randomUUID(), secret, consumer, String(fingerprintRule)],
  }).catch((error: unknown) => {
    const cause = error instanceof Error ? error.cause : undefined
    throw keys.hashTag === undefined && needsOneNode(cause) ? untagged(cause) : error
  })
  const { hasJson, info, ruleBefore } = opened
  demandVersion(info.get('redis_version'))
  if (info.get('cluster_enabled') === '1' && keys.hashTag === undefined) throw untagged()
  if (ruleBefore !== '' && ruleBefore !== String(fingerprintRule)) {
    logger.warn(
      { consumer, registered: Number(ruleBefore), fingerprintRule },
      'another guard of this consumer has another `fingerprint` or `decode`: conflicts between their events are not detected. Use the same in all processes',
    )
  }
  const session = new RedisInboxSession({
    ...{ calls, keys, hasJson, registration, secret: opened.secret },
  })
  return { session, info }
}

/** A server that answers nothing more must not hold the start of the guard. */
const SETTING_MS = 1_000

async function warnOfSettings(
  redis: RedisLike,
  info: Opened['info'],
  { consumer, logger }: ConsumerRegistration,
): Promise<void> {
  const asked = settingOf(redis, 'appendfsync')
  const budget = { runtime: systemRuntime, budgetMs: SETTING_MS }
  const fsync = await inBudget(asked, budget).catch(() => undefined)
  for (const { finding, remedy } of [...findings(info, true), ...durabilityFindings(info, fsync)]) {
    logger.warn({ consumer, finding, remedy }, 'a setting of Redis does not fit an inbox in it')
  }
}

const untagged = (cause?: unknown): ConfigurationError =>
  new ConfigurationError(
    "Expected redisInbox() to have a `hashTag` on a Cluster, where effect and mark must be in one slot. Write `redisInbox(redis, { hashTag: 'shop' })` and begin the keys of the handler with `{shop}`.",
    { cause },
  )
