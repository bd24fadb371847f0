import { until } from '@onceward/testing'
import type { Testbed } from './testbed.ts'
import type { Order, Settled, WorkerConfig } from './workers/protocol.ts'
import type { WorkerProcess } from './workers/worker-process.ts'

interface Message {
  readonly order: Order
  deliveryCount: number
  visibleAtMs: number
}

/**
 * A broker without a network, so that the test decides the order and the receiver of deliveries. All visible messages
 * go to one worker as one batch, in order. Messages in flight in a worker that dies go to the next one.
 */
export class ManualBroker {
  readonly dead: string[] = []
  readonly #messages: Message[]
  readonly #testbed: Testbed
  readonly #worker: Partial<WorkerConfig>
  #workers = 0

  /** @param worker - The workers of this broker alone have it. */
  constructor(testbed: Testbed, orders: readonly Order[], worker: Partial<WorkerConfig> = {}) {
    this.#testbed = testbed
    this.#worker = worker
    this.#messages = orders.map((order) => ({ order, deliveryCount: 0, visibleAtMs: 0 }))
  }

  /** Delivers until every message is acked or dead-lettered; resolves with the number of workers that died. */
  async run(): Promise<number> {
    let deaths = 0
    let worker = this.#nextWorker()
    // The successor starts while the other worker is still running, so that nobody waits for it.
    let successor = this.#nextWorker()
    while (this.#messages.length > 0) {
      const due = await this.#due()
      await this.#deliver(worker, due)
      if (worker.isAlive) continue
      deaths += 1
      worker = successor
      successor = this.#nextWorker()
    }
    return deaths
  }

  #nextWorker(): WorkerProcess {
    this.#workers += 1
    return this.#testbed.spawn(`worker-${this.#workers}`, this.#worker)
  }

  #due(): Promise<readonly Message[]> {
    return until(
      () => {
        const due = this.#messages.filter(({ visibleAtMs }) => visibleAtMs <= performance.now())
        return due.length > 0 && due
      },
      { what: 'a visible message', deadlineMs: 60_000 },
    )
  }

  async #deliver(worker: WorkerProcess, due: readonly Message[]): Promise<void> {
    await worker.heard('ready')
    for (const message of due) message.deliveryCount += 1
    const told = worker.settled.length
    const batches = worker.all('delivered').length
    const deliveries = due.map(({ order, deliveryCount }) => ({ order, deliveryCount }))
    worker.say({ kind: 'deliver', deliveries })
    await until(() => worker.all('delivered').length > batches || !worker.isAlive, {
      what: `${worker.name} to settle or to die`,
      deadlineMs: 60_000,
      everyMs: 5,
    })
    for (const settled of worker.settled.slice(told)) this.#settle(settled)
  }

  #settle({ id, kind, waitMs = 0 }: Settled): void {
    const index = this.#messages.findIndex(({ order }) => order.id === id)
    const message = this.#messages[index]
    if (message === undefined) return
    if (kind === 'dead-letter') this.dead.push(message.order.id)
    if (kind === 'ack' || kind === 'dead-letter') this.#messages.splice(index, 1)
    else message.visibleAtMs = performance.now() + waitMs
  }
}
