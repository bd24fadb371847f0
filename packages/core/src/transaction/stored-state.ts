import { clampedMs } from '../concurrency/backoff.ts'
import { isOwnerLive, YOUNG_MS } from '../model/attempt-machine.ts'
import { ConflictError, roundedHint } from '../model/errors.ts'
import type { InFlightEvent } from '../model/in-flight-event.ts'
import type { Known } from '../model/inbox.ts'
import { isConflict } from '../model/state-machine.ts'
import { optionsOf } from '../options/routes.ts'
import type { Outcome } from '../settlement/outcome.ts'
import type { Engine } from './engine.ts'
import type { PendingEvent, Phase } from './pending-event.ts'

/** What follows from the stored state: the outcome of this delivery, or how its run must start. */
export type Next =
  | { readonly kind: 'outcome'; readonly outcome: Outcome }
  | { readonly kind: 'phase'; readonly phase: Phase }

const CONFLICT =
  'The event key was used before with another payload. Check the key resolver and the producer'
const KEPT = `${CONFLICT}; the message is kept in refused_messages.`

/** Decides from the stored state of an event. */
export async function fromStoredState(
  engine: Engine,
  pending: PendingEvent,
  known: Known,
): Promise<Next> {
  const { member } = pending
  if (known.kind !== 'absent' && isConflict(known.fingerprint, member.event.fingerprint)) {
    return { kind: 'outcome', outcome: await conflictOutcome(engine, member) }
  }
  switch (known.kind) {
    case 'absent':
      return vanished(engine, pending)
    case 'done':
      return { kind: 'outcome', outcome: doneOutcome(pending, known) }
    case 'dead':
      return {
        kind: 'outcome',
        outcome: {
          kind: 'dead',
          reason: known.reason,
          attempt: known.attempt,
          ref: { kind: 'event', id: member.event.id },
          repeated: true,
        },
      }
    case 'waiting':
      if (!(known.remainingMs <= 0)) {
        const { maxMs } = optionsOf(engine.options, member).retry
        const delayMs = clampedMs(known.remainingMs, maxMs)
        return { kind: 'outcome', outcome: { kind: 'not-due', delayMs, cause: 'not-due' } }
      }
      return { kind: 'phase', phase: known.alone ? 'alone' : 'due' }
    case 'running':
      if (isOwnerLive(known.ageMs)) {
        const youngMs = clampedMs(YOUNG_MS - known.ageMs, YOUNG_MS)
        const delayMs = Math.max(youngMs, engine.heldBackoff.nextMs(member.event.id))
        return {
          kind: 'outcome',
          outcome: { kind: 'in-progress', delayMs, cause: 'running-elsewhere' },
        }
      }
      return { kind: 'phase', phase: 'alone' }
    default:
      return known satisfies never
  }
}

/** The row is gone: it was released meanwhile. After an unknown commit this means that nothing was committed. */
function vanished(engine: Engine, pending: PendingEvent): Next {
  if (pending.commitUnknown) return { kind: 'phase', phase: 'fresh' }
  const delayMs = engine.heldBackoff.nextMs(pending.member.event.id)
  return { kind: 'outcome', outcome: { kind: 'in-progress', delayMs, cause: 'running-elsewhere' } }
}

function doneOutcome(pending: PendingEvent, known: Extract<Known, { kind: 'done' }>): Outcome {
  const { ageMs, result } = known
  if (!pending.commitUnknown) return { kind: 'duplicate', result, ageMs }
  return { kind: 'processed', attempt: pending.counted?.attempt ?? 1, result }
}

/** Handles a used key with another payload. The message is recorded separately, and the event's state does not change. */
export async function conflictOutcome(
  engine: Pick<Engine, 'options' | 'session'>,
  member: InFlightEvent,
): Promise<Outcome> {
  const { onConflict } = engine.options
  if (onConflict !== 'dead-letter') {
    const error = new ConflictError(
      `${CONFLICT}; with \`onConflict: '${onConflict}'\` the message is kept nowhere.${roundedHint(member.rounded)}`,
    )
    return { kind: 'conflict', policy: onConflict, error }
  }
  const error = new ConflictError(KEPT + roundedHint(member.rounded))
  const { delivery, key } = member.event
  const reason = 'fingerprint-mismatch'
  const [ref] = await engine.session.refuse([{ delivery, reason, error, key }])
  return { kind: 'dead', reason, attempt: 0, error, ref }
}
