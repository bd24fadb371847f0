import type { Settlement } from '@onceward/core'
import { type GuardPort, processAndSettle, type RunHooks } from '@onceward/core/adapter'
import type { ConsumeMessage } from 'amqplib'
import type { Line, Publisher } from './clients/amqplib.ts'
import { createPublisher } from './dead-letter.ts'
import { toDelivery } from './delivery.ts'
import type { Settings } from './options.ts'
import {
  type DeadLetterPlace,
  giveBack,
  type HeldUntil,
  type Received,
  type SettleContext,
  settle,
} from './settle.ts'

/** Hooks of one {@link Handover.run}. */
export interface HandoverHooks extends Pick<RunHooks, 'stop' | 'abort'> {
  /** The settlement is stored; the broker is told next. */
  readonly onKnown: (received: Received, settlement: Settlement) => void
  /** The broker was told, or the message is kept in hand. */
  readonly onSettled: (received: Received, settlement: Settlement, held: HeldUntil) => void
}

export interface HandoverOptions extends Pick<SettleContext, 'levels' | 'mayHold' | 'quiet'> {
  readonly port: GuardPort
  readonly settings: Settings
  readonly publisher: Publisher
}

/** Between messages in hand and the guard: everything but the loop. */
export class Handover {
  /** Settlements that the broker was not told; their messages return. */
  settleFailures = 0
  readonly #port: GuardPort
  readonly #settings: Settings
  readonly #context: SettleContext

  constructor({ port, settings, publisher, levels, mayHold, quiet }: HandoverOptions) {
    const { runtime, logger } = port
    this.#port = port
    this.#settings = settings
    this.#context = {
      port,
      runtime,
      logger,
      settings,
      publisher,
      place: placeOf(publisher, settings),
      levels,
      mayHold,
      quiet,
      onRefused: () => {
        this.settleFailures += 1
      },
    }
  }

  /** Lets the guard's poller publish dead letters that no delivery brings back; the answer ends it. */
  registerPublisher(): () => void {
    const { place } = this.#context
    if (place.kind !== 'target') return () => undefined
    const source = { broker: 'amqp', queue: this.#settings.queue }
    return this.#port.registerPublisher(source, place.publish)
  }

  /** Takes a message in hand. */
  accept(message: ConsumeMessage, line: Line): Received {
    line.delivered(message)
    return {
      message,
      line,
      delivery: toDelivery(message, this.#settings.queue),
      receivedAtMs: this.#port.runtime.monotonic(),
      rounds: 0,
    }
  }

  /** Resolves when all are settled or held. Never rejects. */
  run(
    batch: readonly Received[],
    { stop, abort, onKnown, onSettled }: HandoverHooks,
  ): Promise<void> {
    return processAndSettle(this.#port, batch, {
      stop,
      abort,
      settle: async (received, settlement) => {
        onKnown(received, settlement)
        const held = settle(this.#context, received, settlement)
        onSettled(received, settlement, held instanceof Promise ? await held : held)
      },
    })
  }

  async giveBack(batch: readonly Received[]): Promise<void> {
    await Promise.all(batch.map((received) => giveBack(this.#context, received)))
  }
}

function placeOf(publisher: Publisher, { deadLetter }: Settings): DeadLetterPlace {
  if (deadLetter === undefined) return { kind: 'record' }
  if (deadLetter === 'dlx') return { kind: 'dlx' }
  return { kind: 'target', publish: createPublisher(publisher, deadLetter) }
}
