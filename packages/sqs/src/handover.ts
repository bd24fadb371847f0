import type { Message } from '@aws-sdk/client-sqs'
import type { Settlement } from '@onceward/core'
import { type GuardPort, processAndSettle, type RunHooks } from '@onceward/core/adapter'
import { Grouping, type Wire } from './clients/aws-sdk.ts'
import { createPublisher } from './dead-letter.ts'
import { toDelivery } from './delivery.ts'
import type { Settings } from './options.ts'
import {
  type DeadLetterPlace,
  giveBack,
  type Hidden,
  type SettleContext,
  settle,
} from './settle.ts'
import { type Received, VisibilityTicker } from './visibility.ts'

const DELETE_WINDOW_MS = 20

/** Hooks of one {@link Handover.run}. */
export interface HandoverHooks extends Pick<RunHooks, 'stop' | 'abort'> {
  /** The settlement is stored; SQS is told next. */
  readonly onKnown?: ((received: Received, settlement: Settlement) => void) | undefined
  /** SQS was told. */
  readonly onSettled?:
    | ((received: Received, settlement: Settlement, hidden: Hidden) => void)
    | undefined
}

/** Between messages in hand and the guard: everything but the loop. */
export class Handover {
  /** Settlements that SQS refused; their messages return. */
  settleFailures = 0
  readonly #port: GuardPort
  readonly #settings: Settings
  readonly #ticker: VisibilityTicker
  readonly #context: SettleContext
  #sequence = 0

  constructor(port: GuardPort, wire: Wire, settings: Settings) {
    const { runtime, logger } = port
    const { queueUrl, visibilityMs, renewMs, fifo } = settings
    const changes = new Grouping({ runtime, call: (entries) => wire.changeVisibility(entries) })
    this.#port = port
    this.#settings = settings
    this.#ticker = new VisibilityTicker({ wire, runtime, logger, queueUrl, visibilityMs, renewMs })
    this.#context = {
      port,
      runtime,
      logger,
      queueUrl,
      visibilityMs,
      ticker: this.#ticker,
      deletes: new Grouping({
        runtime,
        // A delete costs more than the write it follows, so it pays to wait for ten; but a group waits for it.
        windowMs: fifo ? undefined : DELETE_WINDOW_MS,
        call: (entries) => wire.remove(entries.map(({ handle }) => handle)),
      }),
      changes,
      returns: fifo
        ? new Grouping({
            runtime,
            call: (entries) => wire.changeVisibility(entries),
            lastFirst: true,
          })
        : changes,
      place: placeOf(wire, settings),
      onRefused: () => {
        this.settleFailures += 1
      },
    }
  }

  /** Lets the guard's poller publish dead letters that no delivery brings back; the answer ends it. */
  registerPublisher(): () => void {
    const { place } = this.#context
    if (place.kind !== 'queue') return () => undefined
    const source = { broker: 'sqs', queue: this.#settings.queueUrl }
    return this.#port.registerPublisher(source, place.publish)
  }

  /**
   * Takes messages in hand.
   *
   * @throws {@link ConfigurationError} when one was received without its attributes.
   */
  accept(messages: readonly Message[], receivedAtMs: number): readonly Received[] {
    const { queueUrl, visibilityMs } = this.#settings
    const received = messages.map((message): Received => {
      this.#sequence += 1
      return {
        message,
        handle: message.ReceiptHandle ?? '',
        delivery: toDelivery(message, queueUrl),
        receivedAtMs,
        hiddenUntilMs: receivedAtMs + visibilityMs,
        sequence: this.#sequence,
      }
    })
    for (const each of received) this.#ticker.hold(each)
    return received
  }

  /** Resolves when all are settled. Never rejects. */
  run(
    batch: readonly Received[],
    { stop, abort, onKnown, onSettled }: HandoverHooks,
  ): Promise<void> {
    return processAndSettle(this.#port, batch, {
      stop,
      abort,
      settle: async (received, settlement) => {
        onKnown?.(received, settlement)
        const hidden = await this.settle(received, settlement)
        onSettled?.(received, settlement, hidden)
      },
    })
  }

  settle(received: Received, settlement: Settlement): Promise<Hidden> {
    return settle(this.#context, received, settlement)
  }

  /** Keeps a message hidden again that was settled as waiting for the store. */
  hold(received: Received): void {
    this.#ticker.hold(received)
  }

  async giveBack(batch: readonly Received[]): Promise<void> {
    await Promise.all(batch.map((received) => giveBack(this.#context, received)))
  }

  /** No more renewals: what is still in hand becomes visible by itself. */
  stop(): void {
    this.#ticker.stop()
  }
}

function placeOf(wire: Wire, { deadLetter }: Settings): DeadLetterPlace {
  if (deadLetter === undefined) return { kind: 'record' }
  if (deadLetter === 'redrive') return { kind: 'redrive' }
  return { kind: 'queue', publish: createPublisher(wire, deadLetter.queueUrl) }
}
