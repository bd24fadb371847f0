import { isOwnerLive, YOUNG_MS } from '@onceward/core/adapter'
import { type EventFacts, isLate, refusedOf } from './event-facts.ts'

/** What a guard would answer to the next delivery of an event, and why. Words as in `Settlement`. */
export interface NextDelivery {
  readonly kind: 'run' | 'ack' | 'defer' | 'dead-letter'
  /** Of `ack`, `defer` and `dead-letter`. */
  readonly reason?: string | undefined
  /** Of `defer`: not before. */
  readonly untilMs?: number | undefined
  /** Of `run`: its number. */
  readonly attempt?: number | undefined
  readonly why: string
}

/** In the order in which a guard asks: Redis, leases, then the row of the event. */
export function nextDelivery(facts: EventFacts): NextDelivery {
  return byRefusal(facts) ?? byRedis(facts) ?? byLease(facts) ?? byRow(facts)
}

function byRefusal(facts: EventFacts): NextDelivery | undefined {
  const refused = refusedOf(facts)
  return refused && { kind: 'dead-letter', reason: refused.reason, why: REFUSED }
}

function byRedis({ nowMs, redis }: EventFacts): NextDelivery | undefined {
  if (redis === undefined) return undefined
  if (redis.isMarked || redis.kind === 'done') {
    return duplicate('Redis remembers that its effect is committed, so PostgreSQL is not asked.')
  }
  const isHeld = redis.kind === 'in-progress' || redis.kind === 'waiting'
  if (!isHeld || redis.remainingMs <= 0) return undefined
  const untilMs = nowMs + redis.remainingMs
  return redis.kind === 'waiting'
    ? notDue(untilMs, 'Its last attempt failed, and the wait in Redis is not over.')
    : inProgress(untilMs, 'A process holds its lease in Redis.')
}

function byLease({ lease, nowMs }: EventFacts): NextDelivery | undefined {
  if (lease === undefined || lease === 'forbidden') return undefined
  if (lease.state === 'd') return duplicate('The table `leases` remembers that it is done.')
  if (lease.state === 'x') {
    return { kind: 'dead-letter', reason: lease.reason ?? 'attempts-spent', why: DEAD_LEASE }
  }
  if (lease.endsAtMs <= nowMs) return undefined
  if (lease.state === 'p') return inProgress(lease.endsAtMs, 'A process holds its lease.')
  return notDue(lease.endsAtMs, 'Its last attempt failed.')
}

/** Of an event that only the table of leases knows: its lease has ended, or it is due again. */
function afterLease({ lease, registration }: EventFacts): NextDelivery | undefined {
  if (lease === undefined || lease === 'forbidden') return undefined
  const why = lease.state === 'p' ? ENDED_LEASE : OVER
  // Beside an inbox, PostgreSQL counts, and has counted nothing yet. Without one, no guard registers.
  const attempt = registration === undefined ? lease.attempt + 1 : 1
  return runAs(attempt, why)
}

function byRow(facts: EventFacts): NextDelivery {
  const { nowMs, row, trouble } = facts
  if (row === undefined) {
    const after = afterLease(facts)
    if (after !== undefined) return after
    const why =
      'No store has heard of this event. If a run holds its row now, the delivery waits for that run.'
    return { kind: 'run', attempt: 1, why }
  }
  switch (row.state) {
    case 'd':
      return duplicate(isLate(row.state, trouble) ? LATE : 'Its effect is committed.')
    case 'x':
      return dead(facts)
    case 'w': {
      const untilMs = trouble?.nextTryMs ?? nowMs
      if (untilMs > nowMs) {
        const isDeferred = (trouble?.defers ?? 0) > 0 && trouble?.error === null
        return notDue(
          untilMs,
          isDeferred ? 'Its handler has deferred it.' : 'Its last attempt failed.',
        )
      }
      return run(
        facts,
        trouble?.parked === true ? PARKED : (trouble?.reason ?? null) === null ? OVER : SENT,
      )
    }
    case 'r': {
      const countedAtMs = trouble?.countedAtMs ?? 0
      if (!isOwnerLive(nowMs - countedAtMs)) return run(facts, LEFT)
      return inProgress(countedAtMs + YOUNG_MS, 'A run was counted less than 5 s ago.')
    }
    default:
      return row.state satisfies never
  }
}

const REFUSED =
  'The guard refuses the message as long as it reads it alike. Fix what reads it, then run `npx onceward dead-letters replay` with its id.'
const LATE =
  'Its effect is committed without a statement of its handler. Fix the handler (a forgotten `await`), undo what it has committed, then run `npx onceward dead-letters rerun` with its id; or write what is missing and discard it.'
const PARKED =
  'It is parked and due: a running guard of the consumer runs it within seconds, with or without a delivery.'
const OVER = 'The wait after its last attempt is over.'
const ENDED_LEASE =
  'Its lease has ended without a result: the next delivery takes the event over. A guard without an inbox asks `onTakeover` before it runs anything.'
const DEAD_LEASE =
  'It is dead in the table `leases`: nothing runs until `replay` or `forget` of `postgresLeases(pool)` is called for it.'
const SENT =
  'An operator has begun to send its message back to its queue, and the broker has not confirmed it: it stays a dead letter, and a copy in the queue runs.'
const LEFT =
  'The last run has no recorded result: its process was probably killed. The event runs alone in its process. If a run still holds its row, the delivery is deferred.'

const duplicate = (why: string): NextDelivery => ({ kind: 'ack', reason: 'duplicate', why })
const notDue = (untilMs: number, why: string): NextDelivery => ({
  ...{ kind: 'defer', reason: 'not-due', untilMs, why },
})
const inProgress = (untilMs: number, why: string): NextDelivery => ({
  ...{ kind: 'defer', reason: 'in-progress', untilMs, why },
})

function dead({ trouble }: EventFacts): NextDelivery {
  const reason = trouble?.reason ?? 'attempts-spent'
  const why =
    trouble?.discardedAtMs == null
      ? 'It is dead: nothing runs until an operator replays it.'
      : 'It is dead, and an operator has discarded it: its message is deleted, so it cannot be replayed.'
  return { kind: 'dead-letter', reason, why }
}

const run = ({ trouble }: EventFacts, why: string): NextDelivery =>
  runAs((trouble?.attempt ?? 0) + 1, why)

function runAs(attempt: number, why: string): NextDelivery {
  const limit =
    attempt === 1
      ? ''
      : ` If \`retry.attempts\` of the guard is less than ${attempt}, it is dead-lettered instead.`
  return { kind: 'run', attempt, why: `${why}${limit}` }
}
