import type { Consumption } from '@onceward/core'
import {
  type ConsumerLoop,
  type Guard,
  type GuardPort,
  type LoopSignals,
  portOf,
  startConsumption,
} from '@onceward/core/adapter'
import { createWire, type SqsClient, type Wire } from './clients/aws-sdk.ts'
import { Intake } from './dispatch.ts'
import { examine } from './doctor.ts'
import { troubleOf } from './errors.ts'
import { Handover } from './handover.ts'
import { type ConsumeSqsOptions, resolveSettings, type Settings } from './options.ts'
import { Poller } from './receive.ts'

/**
 * Receives from a queue for as long as the process lives and settles what the guard decides.
 *
 * Resolves when the store and the queue have been checked and the first receive is under way. When SQS or the
 * store cannot be reached then, it resolves too and goes on trying: see `health()`.
 *
 * @throws {@link ConfigurationError} for options or queues that cannot work, a missing queue included.
 */
export async function consumeSqs(
  client: SqsClient,
  guard: Guard,
  options: ConsumeSqsOptions,
): Promise<Consumption> {
  const port = portOf(guard)
  const settings = resolveSettings(options, port.settings)
  const wire = createWire(client, settings.queueUrl, port.runtime)
  return startConsumption({
    port,
    drainMs: settings.drainMs,
    signal: options.signal,
    queue: settings.queueUrl,
    describe: (error) => troubleOf(error).text,
    createLoop: (signals) => new QueueLoop({ port, wire, settings, signals }),
  })
}

interface Parts {
  readonly port: GuardPort
  readonly wire: Wire
  readonly settings: Settings
  readonly signals: LoopSignals
}

/** Poller, messages in hand and settling of one queue. */
class QueueLoop implements ConsumerLoop {
  readonly feed: Poller
  readonly intake: Intake
  readonly settling: Handover
  readonly #unregister: () => void

  constructor({ port, wire, settings, signals }: Parts) {
    this.settling = new Handover(port, wire, settings)
    this.#unregister = this.settling.registerPublisher()
    this.intake = new Intake({
      port,
      settings,
      handover: this.settling,
      stop: signals.stop,
      abort: signals.abort,
      onKnown: (settlement) => this.feed.known(settlement),
      onRoom: () => this.feed.pump(),
      onSettled: () => this.feed.progressed(),
    })
    this.feed = new Poller({
      port,
      wire,
      settings,
      handover: this.settling,
      intake: this.intake,
      check: async () => {
        await port.open()
        await examine({ wire, settings, guard: port.settings, logger: port.logger })
      },
      onEnd: signals.onEnd,
    })
  }

  async start(): Promise<void> {
    try {
      await this.feed.start()
    } catch (error) {
      this.#unregister()
      throw error
    }
  }

  async stop(): Promise<void> {
    const polled = this.feed.stop()
    this.intake.clear()
    await polled
    await this.intake.ended()
  }

  /** What has not ended by now is left hidden for one visibility timeout, and keeps its lease. */
  async finish(): Promise<void> {
    this.settling.stop()
    this.#unregister()
  }
}
