import type { Consumption } from '@onceward/core'
import {
  type ConsumerLoop,
  type Guard,
  type GuardPort,
  type LoopSignals,
  portOf,
  startConsumption,
} from '@onceward/core/adapter'
import type { KafkaClient } from './client.ts'
import { Intake } from './clients/partition-batches.ts'
import { examine } from './doctor.ts'
import { troubleOf } from './errors.ts'
import {
  type ConsumeKafkaOptions,
  type ConsumerSettings,
  resolveConsumerSettings,
} from './options.ts'
import { ConsumerLife } from './receive.ts'

/**
 * Consumes topics for as long as the process lives, with a consumer of its own, and a new one whenever kafkajs has
 * ended the old one. It disconnects what it made; the client and the producer stay yours.
 *
 * Resolves when the store and the topics have been checked and the group was joined. When Kafka or the store cannot
 * be reached then, it resolves too and goes on trying: see `health()`.
 *
 * @throws {@link ConfigurationError} for options, topics or groups that cannot work, a missing topic included.
 */
export async function consumeKafka(
  kafka: KafkaClient,
  guard: Guard,
  options: ConsumeKafkaOptions,
): Promise<Consumption> {
  const port = portOf(guard)
  const settings = resolveConsumerSettings(options, port.settings)
  return startConsumption({
    port,
    drainMs: settings.drainMs,
    signal: options.signal,
    queue: settings.topics.map(String).join(', '),
    describe: (error) => troubleOf(error).text,
    createLoop: (signals) => new GroupLoop({ port, kafka, settings, signals }),
  })
}

interface Parts {
  readonly port: GuardPort
  readonly kafka: KafkaClient
  readonly settings: ConsumerSettings
  readonly signals: LoopSignals
}

/** Consumer, records in hand and settling of one member of a group. */
class GroupLoop implements ConsumerLoop {
  readonly feed: ConsumerLife
  readonly intake: Intake
  readonly settling: Intake

  constructor({ port, kafka, settings, signals }: Parts) {
    this.intake = new Intake({
      port,
      settings,
      onKnown: (settlement) => this.feed.known(settlement),
    })
    this.settling = this.intake
    this.feed = new ConsumerLife({
      port,
      kafka,
      settings,
      intake: this.intake,
      check: async () => {
        await port.open()
        await examine({ kafka, settings, port })
      },
      onEnd: signals.onEnd,
    })
    this.intake.handover.registerPublisher(
      settings.topics.filter((topic) => typeof topic === 'string'),
    )
    signals.abort.addEventListener('abort', () => this.intake.abort(), { once: true })
  }

  async start(): Promise<void> {
    try {
      await this.feed.start()
    } catch (error) {
      await this.finish()
      throw error
    }
  }

  /** The consumer stays in its group meanwhile: heartbeats go on, and the last offsets can be committed (K22). */
  async stop(): Promise<void> {
    this.feed.stop()
    await this.intake.stop()
  }

  /** What has not ended by now keeps its lease; its offset was not committed, so its record is delivered again. */
  async finish(): Promise<void> {
    this.intake.handover.close()
    await this.feed.finish()
  }
}
