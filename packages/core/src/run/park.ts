import type { InFlightEvent } from '../model/in-flight-event.ts'
import type { ParkAnswer } from '../model/inbox.ts'
import { isConflict } from '../model/state-machine.ts'
import type { Outcome } from '../settlement/outcome.ts'
import { storeFailure } from '../settlement/store-down.ts'
import type { Engine } from '../transaction/engine.ts'
import { conflictOutcome } from '../transaction/stored-state.ts'
import { end } from './end-event.ts'
import type { Processing } from './processing.ts'
import type { Routed } from './route.ts'

const TOO_LARGE =
  'The delivery is larger than the inbox stores. Raise `maxStoredBytes` of the inbox, or lower the limit of bodies.'

/** Instead of a run: stores the events, which the poller of a guard of the consumer runs. Never rejects. */
export async function parkEvents(processing: Processing, events: readonly Routed[]): Promise<void> {
  const outcomes = await park(processing, events)
  for (const [index, event] of events.entries())
    await end(processing, event, outcomes[index] as Outcome)
}

async function park(
  processing: Processing,
  received: readonly Routed[],
): Promise<readonly Outcome[]> {
  const { breaker, options, stores } = processing
  const members = received.map(({ member }) => member)
  try {
    const { engine } = stores
    if (engine === undefined) throw new Error('A guard that parks its events has an inbox.')
    const events = members.map(({ event }) => event)
    const answers = await engine.session.park(events, options.claimWaitMs)
    breaker.succeeded()
    const outcomes: Outcome[] = []
    for (const [index, member] of members.entries()) {
      outcomes.push(await outcomeOf({ engine, member }, answers[index] as ParkAnswer))
    }
    return outcomes
  } catch (error) {
    // Parked or not: the caller sends the event again and then learns which.
    const outcome = storeFailure(processing, error)
    return members.map(() => outcome)
  }
}

interface Parking {
  readonly engine: Engine
  readonly member: InFlightEvent
}

async function outcomeOf({ engine, member }: Parking, answer: ParkAnswer): Promise<Outcome> {
  switch (answer.kind) {
    case 'parked':
      return { kind: 'parked' }
    case 'held': {
      const delayMs = engine.heldBackoff.nextMs(member.event.id)
      return { kind: 'in-progress', delayMs, cause: 'held-by-row' }
    }
    case 'too-large': {
      const { maxMs: delayMs } = engine.options.retry
      const error = new Error(TOO_LARGE)
      return { kind: 'not-stored', attempt: 0, delayMs, error, cause: 'not-stored' }
    }
    case 'known': {
      const { known } = answer
      if (isConflict(known.fingerprint, member.event.fingerprint)) {
        return conflictOutcome(engine, member)
      }
      if (known.kind !== 'done') return { kind: 'parked', repeated: true }
      return { kind: 'duplicate', result: known.result, ageMs: known.ageMs }
    }
    default:
      return answer satisfies never
  }
}
