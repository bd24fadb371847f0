import { isDeepStrictEqual } from 'node:util'
import type { Settlement } from '@onceward/core'
import { resultOf } from '../faults/handler.ts'
import type { Received } from './broker.ts'

/** The lanes of one call of the guard: what it was given in an order has its effects in this order, on any broker. */
export class CallOrder {
  readonly #received: readonly Received[]
  /** Indices of messages that come back. */
  readonly #toCome: number[] = []

  constructor(received: readonly Received[]) {
    this.#received = received
  }

  /** What is wrong with the settlement, if anything is. */
  settled(index: number, settlement: Settlement): string | undefined {
    if (settlement.kind === 'defer' || settlement.kind === 'abandon') this.#toCome.push(index)
    if (settlement.kind !== 'ack' || settlement.by !== 'processed') return undefined
    const late = this.#received[index]?.message
    const overtaken = this.#toCome.find((earlier) => {
      const message = this.#received[earlier]?.message
      return (
        earlier < index &&
        message?.lane !== undefined &&
        message.lane === late?.lane &&
        message.key !== late.key
      )
    })
    if (overtaken === undefined) return undefined
    return `${late?.key} overtook ${this.#received[overtaken]?.message.key} in its call`
  }
}

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
