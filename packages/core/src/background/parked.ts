import type { StopSignals } from '../concurrency/stop-signals.ts'
import type { DeadLetterRef } from '../model/dead-letter.ts'
import type { Delivery } from '../model/delivery.ts'
import { describeError, InvalidPayloadError } from '../model/errors.ts'
import type { InFlightEvent } from '../model/in-flight-event.ts'
import type { DueEvent, InboxSession } from '../model/inbox.ts'
import { identifyAll, type Seen } from '../receive/read.ts'
import {
  type Decided,
  eventWithoutKey,
  type Received,
  reportWrongAnswer,
} from '../receive/receive.ts'
import { processReceived } from '../run/process.ts'
import { CallSettlements, type GuardParts, startProcessing } from '../run/processing.ts'
import type { OpenInbox } from '../run/stores.ts'
import { openedDue } from '../seal/opened-due.ts'
import type { Outcome } from '../settlement/outcome.ts'
import { withRaw } from '../support/adapter-registry.ts'
import { parkItems } from './park-items.ts'

/** Parked events taken per poll. The limit is low, so that deliveries from the broker come first. */
export const POLL_LIMIT = 10

/** The parts of a guard that its poller and its sweep use. Parked events take no lease: their row decides. */
export interface Background extends GuardParts {
  readonly stores: OpenInbox
}

/** What one search has found. */
export interface Found {
  /** Parked events and messages that are due: dead letters to publish, and `toRun`. */
  readonly found: number
  readonly toRun: readonly DueEvent[]
}

/** Looks for parked events that are due, and publishes dead letters. */
export async function takeDue(
  { options, publisher, stores }: Background,
  limit: number,
): Promise<Found> {
  const { session } = stores.engine
  const due = await openedDue(session, options, limit)
  for (const event of due) {
    // Not awaited: a dead-letter place that does not answer must not hold up the events that are due.
    if (event.what === 'publish') void publisher.publishDue(event, session)
  }
  return { found: due.length, toRun: due.filter(({ what }) => what === 'run') }
}

/** Called once for each event that got an outcome and so is not due any more. */
type OnEnded = (ref: DeadLetterRef, outcome: Outcome) => void

/** Runs parked events through the same steps as deliveries. */
export async function runDue(
  background: Background,
  due: readonly DueEvent[],
  { onEnded, signals }: { readonly signals: StopSignals; readonly onEnded: OnEnded },
): Promise<void> {
  const running = due.map((event) => restore(background, event))
  const deliveries = running.map(({ delivery }) => delivery)
  // A stored message may have ended the process before, so each of them is counted.
  const events = new Set(running.filter(({ identity }) => identity).map(({ delivery }) => delivery))
  const rules = { isSuspect: () => true, isEvent: (each: Delivery) => events.has(each) }
  const seen = await identifyAll(background, deliveries, rules)
  const received: Stored = { events: [], decided: [] }
  for (const [index, event] of running.entries()) {
    await toStored(background, { ...event, index }, { seen: seen[index] as Seen, received })
  }
  const fewer = withoutTwins(background, received.events)
  const members = new Map(fewer.map(({ member }) => [member.index, member]))
  const resolving: Promise<void>[] = []
  const onSettled = (outcome: Outcome, index: number): void => {
    const member = members.get(index)
    if (member?.parked === undefined) return
    if (ENDS.includes(outcome.kind)) onEnded(member.parked, outcome)
    const deleting = resolveRefused(background, member, outcome)
    // Awaited when all runs have ended. An error that is not handled until then would end the process.
    deleting.catch(() => undefined)
    resolving.push(deleting)
  }
  const { stores } = background
  const parts = { ...background, onSettled, areParked: true }
  // The record of a parked event stays, whatever it holds.
  const settling = new CallSettlements(parts, deliveries, { hasDeadLetterPlace: true })
  const call = { stores, signals, observe: settling.observerWith(stores) }
  const processing = startProcessing(background, call, false)
  await processReceived(processing, { events: fewer, decided: received.decided })
  await Promise.all(resolving)
}

interface Stored {
  readonly events: Received[]
  readonly decided: Decided[]
}

/**
 * Leaves an event that this process has in flight to the next poll, and also the second of two stored messages with one
 * key.
 */
function withoutTwins({ inFlight }: Background, events: readonly Received[]): readonly Received[] {
  const firsts = new Map(events.toReversed().map((each) => [each.member.event.id, each]))
  return events.filter((each) => {
    const { id } = each.member.event
    return firsts.get(id) === each && !inFlight.has(id)
  })
}

/** Gives a stored delivery the client's message again, as `raw`. */
function restore({ options }: Background, event: DueEvent): DueEvent {
  const delivery = withRaw(event.delivery, (error) =>
    options.logger.error(
      { err: describeError(error), id: event.ref.id },
      "a stored delivery runs without the client's message in `raw`: update onceward",
    ),
  )
  return { ...event, delivery }
}

/** Outcomes after which an event is not due any more. */
const ENDS: readonly Outcome['kind'][] = [
  ...(['processed', 'duplicate', 'unguarded', 'failed', 'deferred', 'dead'] as const),
]

/**
 * Adds the event to those that run, unless the message was refused again or a later poll tries again. A stored event keeps
 * its identity. A refused message is identified again, because the code may have been fixed.
 */
async function toStored(
  background: Background,
  { delivery, identity, index, ref }: DueEvent & { readonly index: number },
  {
    received: { decided, events },
    seen: identified,
  }: { readonly received: Stored; readonly seen: Seen },
): Promise<unknown> {
  const { options, stores } = background
  const { session } = stores.engine
  if (identified.kind === 'decided') {
    // A later poll reads it again. A store that does not answer is reported elsewhere.
    const { outcome } = identified
    return outcome.kind === 'failed' && decided.push({ index, outcome, key: undefined })
  }
  // Nothing counts the messages of a wrong function, so a later poll tries again.
  if (identified.kind === 'retry' && identity === undefined) {
    reportWrongAnswer(options, identified.error)
    return undefined
  }
  if (identified.kind === 'identified') {
    const { maxAttempts } = identified.event
    const event = identity === undefined ? identified.event : { ...identity, delivery, maxAttempts }
    const { orderingKey: lane, payload, type } = identified
    return events.push(
      toReceived({ index, event, payload, type, lane, suspect: true, parked: ref }),
    )
  }
  if (identity !== undefined) {
    // The run fails with this error before the handler is called: the event is dead-lettered again, or retried.
    const refusal =
      'error' in identified
        ? identified.error
        : new InvalidPayloadError(
            `The stored event is ${identified.kind} by the current options. Change the options, then replay the event.`,
          )
    await forgetReads(session, identified, delivery)
    const event = { ...identity, delivery }
    const member = { index, event, payload: undefined, lane: undefined, suspect: true }
    return events.push(toReceived({ ...member, parked: ref, refusal }))
  }
  if (identified.kind === 'split') return parkItems(background, { ref, items: identified.items })
  if (identified.kind === 'unguarded') {
    const member = eventWithoutKey(options.runtime, { index, delivery }, identified)
    return events.push({ ...toReceived({ ...member, parked: ref }), hasKey: false })
  }
  if (identified.kind === 'refused') {
    const { attempt = 0, error, key, reason, type } = identified
    const [stored] = await session.refuse([{ delivery, reason, error, key }])
    await forgetReads(session, identified, delivery)
    const outcome: Outcome = { kind: 'dead', reason, attempt, error, ref: stored }
    return decided.push({ index, outcome, key, type })
  }
  return session.resolveRefused(ref.id)
}

const toReceived = (member: InFlightEvent): Received => ({ member, copies: [], hasKey: true })

/** No broker brings the message again, and the operator who replays it has fixed what read it. */
async function forgetReads(
  { messageCounts }: InboxSession<unknown>,
  seen: Seen,
  delivery: Delivery,
): Promise<void> {
  const isSpent = seen.kind === 'refused' && ['no-verdict', 'attempts-spent'].includes(seen.reason)
  if (isSpent) await messageCounts?.end([delivery])
}

/**
 * Deletes the record of a refused message once its effect is committed, or once the event has a record of its own. A
 * message that is refused or dead-lettered without a record of an event gets a new refusal record, which waits for the
 * next replay.
 */
async function resolveRefused(
  { publisher, stores }: Background,
  { event, parked }: InFlightEvent,
  outcome: Outcome,
): Promise<void> {
  if (parked?.kind !== 'refused') return
  const { delivery } = event
  const { session } = stores.engine
  if (outcome.kind === 'dead') {
    const { ref, reason, error } = outcome
    if (ref === undefined) await session.refuse([{ delivery, reason, error }])
    if (ref?.kind !== 'event') return
    // The event is not parked and no broker redelivers it, so the record stays until this call has published it.
    const answer = await publisher.publishDue({ ref, what: 'publish', delivery }, session)
    if (answer?.kind === 'retry') return
  } else if (!['processed', 'duplicate', 'unguarded'].includes(outcome.kind)) return
  await session.resolveRefused(parked.id)
}
