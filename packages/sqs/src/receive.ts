import type { Message } from '@aws-sdk/client-sqs'
import type { PullSource, ReceiveRoom } from '@onceward/core/adapter'
import { byOrderingKey, type GuardPort } from '@onceward/core/adapter'
import { ENTRIES, type SqsApi } from './client.ts'
import type { Settings } from './options.ts'
import type { Accept, Received } from './visibility.ts'

export interface ReceiverOptions {
  readonly port: Pick<GuardPort, 'runtime'>
  readonly api: Pick<SqsApi, 'longestPollMs' | 'receive'>
  readonly settings: Pick<Settings, 'batchSize' | 'longPollMs' | 'visibilityMs'>
  readonly accept: Accept
  /** Aborted when the time of a drain is over. */
  readonly abort: AbortSignal
}

/** Long polls at once; each brings up to ten messages. */
const MOST_POLLS = 10
/** Pause between two empty receives that did not long-poll. */
const EMPTY_PAUSE_MS = 200

/** Long polls of a queue (trap T16: one transient error silently ends a naive poll loop). */
export class Receiver implements PullSource<Received> {
  readonly most: number = ENTRIES
  readonly #options: ReceiverOptions
  /** Polls wanted at once: one more whenever a poll brought something, one while the queue is empty. */
  #wantedPolls = 1

  constructor(options: ReceiverOptions) {
    this.#options = options
  }

  fill(room: ReceiveRoom<Received>): void {
    while (room.receiving < this.#wantedPolls && room.free >= room.worthwhile) {
      this.#poll(room, Math.min(ENTRIES, room.free, this.#options.settings.batchSize))
    }
  }

  fillOne(room: ReceiveRoom<Received>): void {
    this.#poll(room, 1)
  }

  failed(): void {
    this.#wantedPolls = 1
  }

  /** SQS hides and counts the messages of an answer that the client no longer waits for. */
  get #longPollMs(): number {
    const { api, settings } = this.#options
    return Math.min(settings.longPollMs, api.longestPollMs() ?? settings.longPollMs)
  }

  #poll(room: ReceiveRoom<Received>, max: number): void {
    void room.receive({ reserved: max, full: max, fetch: () => this.#receive(room, max) })
  }

  /** Without an async function, because a quick handler makes a receive every few messages. */
  #receive(room: ReceiveRoom<Received>, max: number): Promise<readonly Received[]> {
    const { api, settings, port, abort } = this.#options
    const { visibilityMs } = settings
    // After an outage the first receive does not long-poll: it only shows that SQS answers.
    const waitMs = room.outage?.state === 'recovering' ? 0 : this.#longPollMs
    const startedAtMs = port.runtime.monotonic()
    const receiving = api.receive({ max, waitMs, visibilityMs }, abort)
    return receiving.then((messages) => this.#accept(room, messages, { waitMs, startedAtMs }))
  }

  /** @throws if the answer cannot be read: that is a failure, so the pauses grow, and it is logged once. */
  #accept(
    room: ReceiveRoom<Received>,
    messages: readonly Message[],
    { waitMs, startedAtMs }: { readonly waitMs: number; readonly startedAtMs: number },
  ): readonly Received[] {
    const { accept, port } = this.#options
    const received = accept(messages, startedAtMs)
    if (received.length > 0) {
      const most = Math.min(MOST_POLLS, Math.ceil(room.capacity / ENTRIES))
      this.#wantedPolls = Math.min(this.#wantedPolls + 1, most)
    } else {
      this.#wantedPolls = 1
      const tookMs = port.runtime.monotonic() - startedAtMs
      const isShort = this.#longPollMs < 1_000 || tookMs < waitMs / 2
      if (isShort) room.pause(EMPTY_PAUSE_MS * (1 + port.runtime.random()))
    }
    return byOrderingKey(received).flat()
  }
}
