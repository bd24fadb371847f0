import { isSealedResult } from '@onceward/core/ports'
import { MESSAGE_STATES } from '../render/outbox.ts'
import { counted } from '../render/units.ts'
import {
  type EventFacts,
  isLate,
  type RefusedMessage,
  refusedOf,
  type Trouble,
} from './event-facts.ts'
import { type NextDelivery, nextDelivery } from './next-delivery.ts'

/** One thing that happened to an event, or will. */
export interface TimelineEntry {
  readonly atMs: number
  readonly what: string
  /** An error with its stack, a result, a reason in an operator's words. */
  readonly detail?: string | undefined
}

/** What happened to one event, and will, oldest first. */
export interface Timeline {
  readonly facts: EventFacts
  readonly state: string
  readonly chapters: readonly TimelineEntry[]
  readonly next: NextDelivery
  /** Whether any store knows the event. */
  readonly isKnown: boolean
}

const STATES = {
  d: 'done: its effect is committed',
  r: 'running, or its last run has no recorded result',
  w: 'waiting for its next attempt',
  x: 'dead',
} as const

/** Of an event that PostgreSQL knows only in the table of leases, as of guards without an inbox. */
const LEASE_STATES = {
  p: 'running, or its last run has no recorded result',
  w: 'waiting for its next attempt',
  d: 'done, and its result is stored',
  x: 'dead',
} as const

function stateOf(facts: EventFacts): string {
  const { lease, row, trouble } = facts
  if (isLate(row?.state, trouble)) {
    return 'done, but a statement of its handler came after the commit and is missing'
  }
  if (row !== undefined) return STATES[row.state]
  if (refusedOf(facts) !== undefined) return 'a message that was refused, and never became an event'
  if (lease === undefined || lease === 'forbidden') {
    return 'not known to PostgreSQL: no effect and no trouble'
  }
  return `${LEASE_STATES[lease.state]} (in the table leases)`
}

export function timelineOf(facts: EventFacts): Timeline {
  const { row, trouble, redis, refused, sent, audit, lease } = facts
  const chapters = [
    ...rowEntries(facts),
    ...(trouble === undefined ? [] : troubleEntries(trouble, row?.state)),
    ...refused.flatMap(refusedEntries),
    ...sent.map(sentEntry),
    ...audit.map(({ atMs, who, action, target, why }) => ({
      atMs,
      what: `${who} ${ACTIONS[action] ?? `asked for: ${action}`}${ofMessage(target, facts)}`,
      ...(why === null ? {} : { detail: why }),
    })),
    ...leaseEntries(facts),
  ]
  const isKnown =
    row !== undefined ||
    refused.length > 0 ||
    audit.length > 0 ||
    (lease !== undefined && lease !== 'forbidden') ||
    (redis !== undefined && (redis.isMarked || redis.kind !== 'absent'))
  return {
    facts,
    state: stateOf(facts),
    chapters: chapters.toSorted((one, other) => one.atMs - other.atMs),
    next: nextDelivery(facts),
    isKnown,
  }
}

/** What operators did, by the word that is stored of it. */
const ACTIONS: Readonly<Record<string, string>> = {
  replay: 'replayed it',
  rerun: 'let it run again, although its effect was committed',
  requeue: 'began to send its message back to the queue',
  requeued: 'sent its message back to the queue',
  discard: 'discarded it',
}

/** Of what the event has sent, and not of the event itself. */
function ofMessage(target: string, { id, refused }: EventFacts): string {
  const isOwn = [id, ...refused.map((each) => each.id)].includes(target)
  return isOwn ? '' : `: the message ${target} of its outbox`
}

const sentEntry = (message: EventFacts['sent'][number]): TimelineEntry => ({
  atMs: message.createdAtMs,
  what: `it sent ${message.id} to ${message.destination}, which ${MESSAGE_STATES[message.state]}`,
  ...(message.error === null ? {} : { detail: message.error }),
})

function rowEntries({ row, registration, result }: EventFacts): readonly TimelineEntry[] {
  if (row?.state !== 'd') return []
  const forgottenMs = registration === undefined ? undefined : row.atMs + registration.dedupWindowMs
  return [
    {
      atMs: row.atMs,
      what: 'the effect was committed (start of the transaction)',
      ...(result === undefined
        ? {}
        : { detail: `result: ${isSealedResult(JSON.parse(result)) ? 'sealed' : result}` }),
    },
    ...(forgottenMs === undefined
      ? []
      : [{ atMs: forgottenMs, what: 'the dedup window ends: the sweep may forget the event' }]),
  ]
}

function troubleEntries(trouble: Trouble, state: string | undefined): readonly TimelineEntry[] {
  const { attempt, countedAtMs, discardedAtMs, error, reason } = trouble
  const chapters: TimelineEntry[] = []
  const hasFailed = error !== null || reason !== null
  if (trouble.firstFailedAtMs < trouble.lastFailedAtMs) {
    chapters.push({
      atMs: trouble.firstFailedAtMs,
      what: trouble.parked
        ? 'the event was parked, or its first attempt was counted or failed'
        : 'the first attempt was counted or failed',
    })
  }
  if (countedAtMs !== null && attempt > 0) {
    chapters.push({ atMs: countedAtMs, what: `attempt ${attempt} began` })
  }
  if (trouble.defers > 0) {
    const what = `its handler has deferred it ${trouble.defers === 1 ? 'once' : `${trouble.defers} times`} (\`context.defer\`), without an attempt`
    chapters.push({ atMs: trouble.lastFailedAtMs, what })
  }
  if (hasFailed) {
    const what = reason === null ? failureText(trouble) : endText(trouble, reason, state)
    chapters.push({
      atMs: trouble.lastFailedAtMs,
      what: `${what}${reason !== null && trouble.published && discardedAtMs === null ? '; published to the dead-letter place' : ''}`,
      ...(error === null ? {} : { detail: error }),
    })
  }
  if (discardedAtMs !== null) chapters.push({ atMs: discardedAtMs, what: 'discarded' })
  if (state === 'w') {
    const where = trouble.parked ? ', from PostgreSQL (parked)' : ''
    const alone = trouble.alone ? ', alone in its process' : ''
    chapters.push({
      atMs: trouble.nextTryMs,
      what: `attempt ${attempt + 1} is due${where}${alone}`,
    })
  }
  return chapters
}

const withoutResult = (noVerdict: number): string =>
  noVerdict > 0 ? `, ${noVerdict} of them without a recorded result` : ''

/** A replay sets the attempts back and keeps the error. */
const failureText = ({ attempt, noVerdict }: Trouble): string =>
  attempt === 0
    ? 'its last failure before the replay'
    : `its last failure; ${counted(attempt, 'attempt')} so far${withoutResult(noVerdict)}`

const endText = (trouble: Trouble, reason: string, state: string | undefined): string =>
  isLate(state, trouble)
    ? 'a statement came after the handler had returned, so the event is done without it (late-statement)'
    : deadText(trouble, reason)

const deadText = ({ attempt, noVerdict }: Trouble, reason: string): string =>
  attempt === 0
    ? `dead-lettered (${reason}) before its first attempt`
    : `dead-lettered (${reason}) after ${counted(attempt, 'attempt')}${withoutResult(noVerdict)}`

function refusedEntries(message: RefusedMessage): readonly TimelineEntry[] {
  const { error, id, reason, replay, times } = message
  const what = `a message with this key was refused (${reason}), ${times === 1 ? 'once' : `${times} times`}; dead letter ${id}`
  return [
    {
      atMs: message.lastFailedAtMs,
      what: replay ? `${what}; its replay is due` : what,
      ...(error === null ? {} : { detail: error }),
    },
  ]
}

function leaseEntries({ lease, redis, nowMs }: EventFacts): readonly TimelineEntry[] {
  const chapters: TimelineEntry[] = []
  if (
    lease !== undefined &&
    lease !== 'forbidden' &&
    (lease.state === 'p' || lease.state === 'w')
  ) {
    const what = lease.state === 'p' ? 'the lease ends' : 'the wait in `leases` ends'
    chapters.push({ atMs: lease.endsAtMs, what: `${what} (attempt ${lease.attempt})` })
  }
  if (redis?.kind === 'in-progress' || redis?.kind === 'waiting') {
    const what = redis.kind === 'in-progress' ? 'the lease in Redis ends' : 'the wait in Redis ends'
    chapters.push({ atMs: nowMs + redis.remainingMs, what: `${what} (attempt ${redis.attempt})` })
  }
  return chapters
}
