import { hostname } from 'node:os'
import type { Runtime } from '@onceward/core/ports'
import type { ConsumerContext } from '../driver/rows.ts'

/** The row of one guard in `workers`. */
export class Worker {
  readonly #context: ConsumerContext
  readonly #id: string
  #hasBeaten = false
  #hasEnded = false

  constructor(context: ConsumerContext & { readonly runtime: Pick<Runtime, 'uuid'> }) {
    this.#context = context
    this.#id = context.runtime.uuid()
  }

  async beat(): Promise<void> {
    if (this.#hasEnded) return
    const { consumerId, driver, statements } = this.#context
    this.#hasBeaten = true
    // In a container the name of the host is that of the pod.
    const name = `${hostname()}:${process.pid}`
    await driver.query(statements.heartbeat, [this.#id, String(consumerId), name])
  }

  /** Never rejects: a row that stays counts as a worker for 90 s, and no longer. */
  async end(): Promise<void> {
    this.#hasEnded = true
    if (!this.#hasBeaten) return
    const { driver, statements } = this.#context
    await driver.query(statements.endWorker, [this.#id]).catch(() => undefined)
  }
}
