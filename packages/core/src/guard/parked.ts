import type { InFlight } from '../concurrency/in-flight.ts'
import type { StopSignals } from '../concurrency/stop-signals.ts'
import { identify } from '../identity/identify.ts'
import { InvalidPayloadError } from '../model/errors.ts'
import type { InFlightEvent } from '../model/in-flight-event.ts'
import type { DueEvent } from '../model/inbox.ts'
import type { Outcome } from '../settlement/outcome.ts'
import type { DeadLetterPublisher } from '../settlement/publish-dead-letter.ts'
import type { Engine } from '../transaction/engine.ts'
import { eventWithoutKey } from './receive.ts'
import { runUnguarded, runWithInbox } from './with-inbox.ts'

/** Parked events taken at once: few, so that the consumers' deliveries come first. */
export const POLL_LIMIT = 10

export interface BackgroundContext {
  readonly engine: Engine
  readonly publishing: DeadLetterPublisher
  readonly flights: InFlight
}

/** A stored delivery by today's options. */
type Stored =
  | { readonly kind: 'run'; readonly member: InFlightEvent }
  | { readonly kind: 'unguarded'; readonly member: InFlightEvent }
  /** Nothing to run: refused again, or to be looked at again later. */
  | { readonly kind: 'none' }

/** Publishes and runs what is parked and due, through the same engine; answers how much was found. */
export async function runParked(context: BackgroundContext, signals: StopSignals): Promise<number> {
  const { engine, publishing } = context
  const due = await engine.session.due(POLL_LIMIT)
  for (const event of due) {
    if (event.what === 'publish') await publishing.publishDue(event, engine.session)
  }
  const running = due.filter(({ what }) => what === 'run')
  const stored = await Promise.all(running.map((event) => identifyStored(engine, event)))
  const members = stored.flatMap((one) => (one.kind === 'run' ? [one.member] : []))
  await runStored(context, members, signals)
  for (const one of stored) {
    if (one.kind === 'unguarded') await runKeyless(context, one.member, signals)
  }
  return due.length
}

async function runStored(
  context: BackgroundContext,
  members: readonly InFlightEvent[],
  signals: StopSignals,
): Promise<void> {
  const { engine, flights } = context
  const free = members.filter(({ event }) => !flights.has(event.id))
  const landings = new Map(free.map(({ event }) => [event.id, flights.start(event.id)]))
  const tails: Promise<void>[] = []
  const settle = (member: InFlightEvent, outcome: Outcome): void => {
    landings.get(member.event.id)?.()
    tails.push(resolveRefused(context, member, outcome))
  }
  try {
    await runWithInbox({ engine, leases: undefined, signals, onOutcome: settle }, free)
  } finally {
    for (const land of landings.values()) land()
  }
  await Promise.all(tails)
}

async function runKeyless(
  context: BackgroundContext,
  member: InFlightEvent,
  signals: StopSignals,
): Promise<void> {
  const { outcome } = await runUnguarded(context.engine, member, signals)
  await resolveRefused(context, member, outcome)
}

/** A stored event keeps its identity; a refused message is identified anew, maybe by better code. */
async function identifyStored(
  engine: Engine,
  { delivery, identity, ref }: DueEvent,
): Promise<Stored> {
  const identified = await identify(delivery, engine.options)
  if (identified.kind === 'retry') return { kind: 'none' }
  if (identified.kind === 'identified') {
    const event = identity === undefined ? identified.event : { ...identity, delivery }
    const { orderingKey: lane, payload } = identified
    return { kind: 'run', member: { event, payload, lane, suspect: true, parked: ref } }
  }
  if (identity !== undefined) {
    // Its run fails before the handler sees it, so the event is buried again with the reason.
    const refusal =
      identified.kind === 'refused'
        ? identified.error
        : new InvalidPayloadError(`The stored event is ${identified.kind} by today's options.`)
    const event = { ...identity, delivery }
    const member = { event, payload: undefined, lane: undefined, suspect: true }
    return { kind: 'run', member: { ...member, parked: ref, refusal } }
  }
  if (identified.kind === 'unguarded') {
    const member = eventWithoutKey(engine.options, delivery, identified)
    return { kind: 'unguarded', member: { ...member, parked: ref } }
  }
  if (identified.kind === 'refused') {
    const { error, key, reason } = identified
    await engine.session.refuse([{ delivery, reason, error, key }])
  } else await engine.session.resolveRefused(ref.id)
  return { kind: 'none' }
}

/**
 * Its record goes once its effect is committed, or it has a record as an event of its own. One that is dead as what
 * it is gets its record anew, and waits for the next replay.
 */
async function resolveRefused(
  { engine, publishing }: BackgroundContext,
  { event, parked }: InFlightEvent,
  outcome: Outcome,
): Promise<void> {
  if (parked?.kind !== 'refused') return
  const { delivery } = event
  if (outcome.kind === 'dead') {
    const { ref, reason, error } = outcome
    if (ref === undefined) await engine.session.refuse([{ delivery, reason, error }])
    if (ref?.kind !== 'event') return
    // No broker brings it and it is not parked itself: nobody else would publish it.
    await publishing.publishDue({ ref, what: 'publish', delivery }, engine.session)
  } else if (!['processed', 'duplicate', 'unguarded'].includes(outcome.kind)) return
  await engine.session.resolveRefused(parked.id)
}
