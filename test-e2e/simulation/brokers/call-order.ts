import { isDeepStrictEqual } from 'node:util'
import type { DeadLetterReason, Settlement } from '@onceward/core'
import { resultOf } from '../faults/handler.ts'
import type { Message, Received } from './broker.ts'

/**
 * The lanes of one call of the guard: handlers run in delivery order, on any broker. An earlier delivery that comes back
 * is overtaken only if its handler may still run. A copy with another payload of a decided event never runs: when its
 * refusal could not be stored, it is deferred and refused later, and the lane goes on. A dead event overtakes nobody: it
 * had no effect, though its message counts as processed if it was split.
 */
export class CallOrder {
  readonly #received: readonly Received[]
  /** Keys of events that an earlier delivery of the call found or made processed or dead. */
  readonly #decided = new Set<string>()
  /** Indices of messages that come back. */
  readonly #toCome: number[] = []

  readonly #isDead: (key: string) => boolean

  constructor(received: readonly Received[], isDead: (key: string) => boolean) {
    this.#received = received
    this.#isDead = isDead
  }

  /** What is wrong with the settlement, if anything is. */
  settled(index: number, settlement: Settlement): string | undefined {
    const message = this.#received[index]?.message
    if (message !== undefined && decides(settlement)) this.#decided.add(message.key)
    if (comesBack(settlement) && !this.#isRefusedForGood(message)) this.#toCome.push(index)
    if (settlement.kind !== 'ack' || settlement.by !== 'processed') return undefined
    const late = this.#received[index]?.message
    if (late === undefined || this.#isDead(late.key)) return undefined
    const overtaken = this.#toCome.find((earlier) => {
      const message = this.#received[earlier]?.message
      return (
        earlier < index &&
        message?.lane !== undefined &&
        message.lane === late.lane &&
        message.key !== late.key
      )
    })
    if (overtaken === undefined) return undefined
    return `${late.key} overtook ${this.#received[overtaken]?.message.key} in its call`
  }

  #isRefusedForGood(message: Message | undefined): boolean {
    return message?.plan.variant === 'conflict' && this.#decided.has(message.key)
  }
}

function comesBack(settlement: Settlement): boolean {
  if (settlement.kind === 'abandon') return true
  return settlement.kind === 'defer' && !isUnpublished(settlement)
}

/** The event of a message that was split is dead, and only its dead letter is not published yet. */
function isUnpublished({ cause, reason }: Extract<Settlement, { kind: 'defer' }>): boolean {
  return reason === 'failed' && UNPUBLISHED.has(cause)
}

const UNPUBLISHED: ReadonlySet<string | undefined> = new Set([
  ...['dead-letter-place-down', 'publishing-elsewhere', 'running-elsewhere', 'store-error'],
])

/** Whether the settlement says that the event is processed or dead. A refused message says nothing about its event. */
function decides(settlement: Settlement): boolean {
  switch (settlement.kind) {
    case 'ack':
      return settlement.by === 'processed' || settlement.by === 'duplicate'
    case 'dead-letter':
      return !REFUSALS.has(settlement.reason)
    case 'defer':
    case 'abandon':
      return false
  }
}

const REFUSALS: ReadonlySet<DeadLetterReason> = new Set([
  'fingerprint-mismatch',
  'invalid-payload',
  'missing-event-key',
  'unknown-type',
])

/** A duplicate has the result of the run that had the effect, or none. */
export function wrongResult(
  received: Received | undefined,
  settlement: Settlement,
): string | undefined {
  if (received === undefined || settlement.kind !== 'ack' || settlement.by !== 'duplicate') return
  const { result } = settlement
  if (result === undefined || isDeepStrictEqual(result, resultOf(received.message.key))) return
  return `a copy of ${received.message.key} got ${JSON.stringify(result)}`
}
