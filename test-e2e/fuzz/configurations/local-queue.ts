import { type Guard, type Health, StoreUnavailableError } from '@onceward/core'
import { type GuardPort, portOf } from '@onceward/core/adapter'
import { toDelivery } from '@onceward/core/memory'
import type { Order, Started } from './scenario.ts'

interface Message {
  readonly order: Order
  deliveries: number
  visibleAtMs: number
}

const SOURCE = { broker: 'local', queue: 'orders' } as const
const BATCH = 8
const PAUSE_MS = 10
/** How soon a start is tried again while the store is down. */
const REOPEN_MS = 200

/** A broker without a server, for cells that are about stores. Its consumer does what the adapters do. */
export class LocalQueue {
  readonly published: string[] = []
  readonly #messages: Message[] = []
  readonly #inFlight = new Set<Message>()

  get depth(): number {
    return this.#messages.length
  }

  send(orders: readonly Order[]): void {
    this.#messages.push(
      ...orders.map((order) => ({ order, deliveries: 0, visibleAtMs: performance.now() })),
    )
  }

  /** @throws What the store answers at the start, unless the store is only down. */
  async consume(guard: Guard): Promise<Started> {
    const port = portOf(guard)
    const stop = new AbortController()
    const consumer = { reason: '', isOpen: false }
    const open = async (): Promise<void> => {
      try {
        await port.open()
        consumer.isOpen = true
        consumer.reason = ''
      } catch (error) {
        if (!(error instanceof StoreUnavailableError)) throw error
        consumer.reason = error.message
      }
    }
    await open()
    const stopped = this.#loop(port, { stop: stop.signal, open, consumer })
    const drained = stopped.catch(() => undefined)
    return {
      health: (): Health => ({
        state: consumer.reason === '' ? 'running' : 'paused',
        inFlight: this.#inFlight.size,
        reason: consumer.reason,
        settleFailures: 0,
      }),
      stopped,
      drain: async () => {
        stop.abort()
        await drained
      },
    }
  }

  async #loop(
    port: GuardPort,
    work: {
      readonly stop: AbortSignal
      readonly open: () => Promise<void>
      readonly consumer: { reason: string; readonly isOpen: boolean }
    },
  ): Promise<void> {
    const running = new Set<Promise<void>>()
    while (!work.stop.aborted) {
      if (!work.consumer.isOpen) {
        await pause(REOPEN_MS)
        await work.open()
        continue
      }
      const due = this.#due()
      if (due.length > 0) {
        const batch = this.#deliver(port, due, work).finally(() => running.delete(batch))
        running.add(batch)
      }
      await pause(PAUSE_MS)
    }
    await Promise.all(running)
  }

  #due(): readonly Message[] {
    const now = performance.now()
    return this.#messages
      .filter((message) => message.visibleAtMs <= now && !this.#inFlight.has(message))
      .slice(0, BATCH)
  }

  async #deliver(
    port: GuardPort,
    due: readonly Message[],
    { stop, consumer }: { readonly stop: AbortSignal; readonly consumer: { reason: string } },
  ): Promise<void> {
    for (const message of due) {
      message.deliveries += 1
      this.#inFlight.add(message)
    }
    const deliveries = due.map(({ order, deliveries }) =>
      toDelivery(order, { source: SOURCE, deliveryCount: deliveries, redelivered: deliveries > 1 }),
    )
    const settlements = await port.run(deliveries, { stop, hasDeadLetterPlace: true })
    for (const [index, settlement] of settlements.entries()) {
      const message = due[index]
      if (message === undefined) continue
      if (settlement.kind === 'defer') {
        message.visibleAtMs = performance.now() + Math.max(0, settlement.until - Date.now())
        if (settlement.reason === 'store-down') consumer.reason = String(settlement.error)
      } else if (settlement.kind === 'ack') this.#remove(message)
      else if (settlement.kind === 'dead-letter') {
        const { id } = message.order
        const publish = async (): Promise<void> => void this.published.push(id)
        const answer = await port.publishDeadLetter(settlement, publish)
        if (answer.kind !== 'retry') this.#remove(message)
      }
      this.#inFlight.delete(message)
    }
  }

  #remove(message: Message): void {
    const index = this.#messages.indexOf(message)
    if (index >= 0) this.#messages.splice(index, 1)
  }
}

const pause = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms))
