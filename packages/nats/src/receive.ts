import type { GuardPort, PullSource, ReceiveRoom } from '@onceward/core/adapter'
import type { NatsApi, Terms } from './client.ts'
import type { Accept, Received } from './delivery.ts'
import type { Settings } from './options.ts'

export interface ReceiverOptions {
  readonly port: Pick<GuardPort, 'runtime'>
  readonly api: Pick<NatsApi, 'pull'>
  readonly settings: Pick<Settings, 'batchSize'>
  readonly terms: Terms
  readonly accept: Accept
  /** Looks at the stream and the consumer again, which may be gone or changed. */
  readonly look: () => Promise<void>
}

type Room = ReceiveRoom<Received>

/** A receive waits this long for a message, so a drain waits at most as long for its end. */
const WAIT_MS = 1_000
const LEAST_WAIT_MS = 100
/** Pause after a receive that ended without messages and without waiting: others wait for them too. */
const EMPTY_PAUSE_MS = 100

/** One pull request at a time: it takes all that is there, so the next one waits. */
export class Receiver implements PullSource<Received> {
  readonly most: number = Number.POSITIVE_INFINITY
  readonly #options: ReceiverOptions
  #isLookDue = false

  constructor(options: ReceiverOptions) {
    this.#options = options
  }

  fill(room: Room): void {
    const { settings, terms } = this.#options
    if (room.receiving > 0 || room.free < room.worthwhile) return
    this.#pull(room, Math.min(room.free, settings.batchSize, terms.mostBatch))
  }

  fillOne(room: Room): void {
    this.#pull(room, 1)
  }

  failed(): void {
    this.#isLookDue = true
  }

  #pull(room: Room, batch: number): void {
    void room.receive({ reserved: batch, full: batch, fetch: () => this.#receive(room, batch) })
  }

  async #receive(room: Room, batch: number): Promise<readonly Received[]> {
    const { api, terms, accept, port, look } = this.#options
    if (this.#isLookDue) await look()
    this.#isLookDue = false
    // Of a message's `ack_wait` the time of the request may be over when it is here.
    const waitMs = Math.max(LEAST_WAIT_MS, Math.min(WAIT_MS, terms.ackWaitMs / 4))
    const expiresMs = Math.round(Math.min(waitMs, terms.mostExpiresMs))
    const { runtime } = port
    const startedAtMs = runtime.monotonic()
    const { messages, sentAtMs } = await api.pull({ batch, expiresMs })
    const isShort = runtime.monotonic() - startedAtMs < expiresMs / 2
    if (messages.length === 0 && isShort) room.pause(EMPTY_PAUSE_MS * (1 + runtime.random()))
    return accept(messages, sentAtMs)
  }
}
