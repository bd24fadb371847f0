import { ConfigurationError, type WrappedConsumption } from '@onceward/core'
import {
  type ClientRule,
  type Guard,
  type GuardPort,
  portOf,
  refuseUnfitClient,
  type WrapOutage,
  type WrappedLoop,
  type WrapSignals,
  withConsumption,
} from '@onceward/core/adapter'
import type { ConsumerCrashEvent, ConsumerRunConfig } from 'kafkajs'
import type { KafkaConsumer } from './client.ts'
import { PartitionBatches } from './clients/kafkajs/partition-batches.ts'
import { type Times, Watchdog } from './clients/kafkajs/watchdog.ts'
import { isConfluent } from './clients/producers.ts'
import { TopicPublishers } from './dead-letter.ts'
import { Dispatcher } from './dispatch.ts'
import { classifyError, codecAdvice, missingCodecIn } from './errors.ts'
import { checkWrapNames, resolveSettings, type Settings, type WrapKafkaOptions } from './options.ts'

/** What {@link wrapKafka} returns: the config of `consumer.run`. */
export interface WrappedKafka extends ConsumerRunConfig {
  readonly consumption: WrappedConsumption
}

const CONSUMER: ClientRule = {
  expected: 'a consumer of kafkajs',
  methods: ['on', 'pause', 'resume'],
  advice: 'Give what `kafka.consumer({ groupId })` answers.',
}

/** What was found is in docs/kafka.md. */
const UNWRAPPABLE =
  'wrapKafka got a consumer of @confluentinc/kafka-javascript. Its eachBatch skips fetched records of a partition that ' +
  'is paused, and commits their offsets (its issue 517), so it cannot be wrapped without loss. Use ' +
  "`consumeKafka(confluent({ 'bootstrap.servers': … }), guard, { topics })`, with `confluent` of @onceward/kafka/confluent."

/**
 * The guard as the config of your own `consumer.run(…)`.
 *
 * The same engine as `consumeKafka`: offsets are committed up to the first record that is not settled, slow and
 * deferred records hold back their key and nothing else, a rebalance is answered in time. Call it once per consumer,
 * before `run`, and change nothing of what it answers: with `autoCommit` or `eachBatchAutoResolve`, offsets would pass
 * records that are not done.
 *
 * A wrapped consumer is not brought back when kafkajs ended it for good (see `consumer.events.CRASH` with
 * `restart: false`), nor kept from coming back after `stop()`. Its settings are not checked at start
 * (`maxWaitTimeInMs` must be a third of `sessionTimeout` or less). The identity that `position()` makes does not
 * contain the cluster. `consumeKafka` does all that. A `consumer.seek` of your own skips records.
 * To shut down: `await wrapped.consumption.drain()` while the consumer still runs, `await consumer.disconnect()`,
 * `await guard.close()`. A `consumer.stop()` before the drain waits for the handlers without a bound, and what outlives
 * it ends without its offset: those records come again as duplicates.
 *
 * @throws {@link ConfigurationError} for options that cannot work.
 *
 * @example
 * ```ts
 * import { wrapKafka } from '@onceward/kafka'
 *
 * await consumer.run(wrapKafka(consumer, billing))
 * ```
 */
export function wrapKafka(
  consumer: KafkaConsumer,
  guard: Guard,
  options: WrapKafkaOptions = {},
): WrappedKafka {
  const port = portOf(guard)
  checkWrapNames(options)
  const settings = resolveSettings(options, port.settings)
  if (isConfluent(consumer)) throw new ConfigurationError(UNWRAPPABLE)
  refuseUnfitClient('wrapKafka', consumer, CONSUMER)
  return withConsumption({
    port,
    drainMs: settings.drainMs,
    queue: 'the topics of a wrapped consumer',
    describe: (error) => classifyError(error).text,
    createLoop: (signals) => createLoop({ port, settings, consumer, signals }),
  })
}

interface Parts {
  readonly port: GuardPort
  readonly settings: Settings
  readonly consumer: KafkaConsumer
  readonly signals: WrapSignals
}

function createLoop({ port, settings, consumer, signals }: Parts): WrappedLoop<ConsumerRunConfig> {
  const batches = new PartitionBatches({ port, settings, onRunnable: () => dispatcher.pump() })
  const life = new ConsumerLife(port, batches, signals)
  const dispatcher: Dispatcher = new Dispatcher({
    ...{ port, settings, batches, signals },
    onKnown: signals.progressed,
  })
  const publishers = new TopicPublishers(port, settings, batches)
  const close = (): void => {
    life.close()
    dispatcher.close()
    publishers.close()
  }
  const eachBatch = batches.attach(consumer)
  const { GROUP_JOIN, REBALANCING, CRASH, STOP } = consumer.events
  consumer.on(GROUP_JOIN, ({ payload }) => {
    if (!signals.stop.aborted) publishers.register(Object.keys(payload.memberAssignment))
    batches.joined(payload)
  })
  consumer.on(REBALANCING, () => batches.rebalancing())
  consumer.on(CRASH, () => batches.left())
  consumer.on(STOP, close)
  life.follow(consumer, () => signals.stop.aborted)
  warnOfForeignCommits({ port, consumer, batches })
  signals.abort.addEventListener('abort', () => batches.abort(), { once: true })
  return {
    wrapped: {
      autoCommit: false,
      eachBatchAutoResolve: false,
      partitionsConsumedConcurrently: settings.partitionsConsumedConcurrently,
      eachBatch,
    },
    dispatcher,
    settling: batches,
    finish: async () => close(),
    get outage() {
      return life.outage
    },
  }
}

/** With `autoCommit`, or with commits by the user, unsettled records are lost in a crash. */
function warnOfForeignCommits({
  batches,
  consumer,
  port,
}: Pick<Parts, 'port' | 'consumer'> & { readonly batches: PartitionBatches }): void {
  let isTold = false
  const committed = (topic: string, partition: number, offset: string): void => {
    const batch = batches.open.find((each) => each.topic === topic && each.partition === partition)
    const waiting = batch?.progress.lowest?.record.message.offset
    if (isTold || waiting === undefined || BigInt(offset) <= BigInt(waiting)) return
    isTold = true
    port.logger.error(
      { topic, partition, offset, waiting },
      'an offset was committed past records that are not done: pass the config of wrapKafka to `consumer.run` unchanged, and commit nothing yourself',
    )
  }
  consumer.on(consumer.events.COMMIT_OFFSETS, ({ payload }) => {
    for (const { partitions, topic } of payload.topics) {
      // kafkajs gives partitions of an automatic commit as text.
      for (const { offset, partition } of partitions) committed(topic, Number(partition), offset)
    }
  })
}

const JOINING: WrapOutage = { state: 'recovering', reason: 'the consumer has not joined its group' }
const STOPPED: WrapOutage = {
  state: 'stopped',
  reason: 'the consumer was stopped: call `consumer.run` again, or end the process',
}

/** The defaults of kafkajs, because a wrap does not know the times of its consumer. */
const TIMES: Times = { sessionTimeout: 30_000 }
const SILENCE_FIX =
  'if it stays so, restart the process: no record of its partitions is read until the consumer has joined its group again'

/** What the events of a consumer say about its health. */
class ConsumerLife {
  outage: WrapOutage | undefined = JOINING
  readonly #port: GuardPort
  readonly #batches: PartitionBatches
  readonly #watchdog: Watchdog
  readonly #progressed: () => void
  #isSilent = false

  constructor(port: GuardPort, batches: PartitionBatches, { progressed }: WrapSignals) {
    this.#progressed = progressed
    this.#port = port
    this.#batches = batches
    this.#watchdog = new Watchdog(port.runtime, TIMES)
  }

  /** @param isOver - A join does not bring its health back: nothing is processed any more. */
  follow(consumer: KafkaConsumer, isOver: () => boolean): void {
    const { CRASH, DISCONNECT, FETCH, GROUP_JOIN, HEARTBEAT, STOP } = consumer.events
    const stopped = (): void => {
      // Why the consumer ended matters more than that it did.
      if (this.outage?.state !== 'stopped') this.outage = STOPPED
    }
    consumer.on(GROUP_JOIN, () => {
      this.#progressed()
      if (!isOver()) this.#begin()
    })
    consumer.on(FETCH, () => this.#answered())
    consumer.on(HEARTBEAT, ({ payload }) => this.#answered(payload.groupGenerationId))
    consumer.on(CRASH, ({ payload }) => this.#crashed(payload))
    consumer.on(STOP, stopped)
    consumer.on(DISCONNECT, stopped)
  }

  /** Ends the timer that would outlive the consumer. */
  close(): void {
    this.#isSilent = false
    this.#watchdog.end()
  }

  #begin(): void {
    this.outage = undefined
    this.#isSilent = false
    this.#watchdog.begin((silence) => {
      const reason = classifyError(silence).text
      this.outage = { state: 'recovering', reason }
      this.#isSilent = true
      this.#port.logger.warn({ reason, fix: SILENCE_FIX }, 'the consumer may not restart')
    })
  }

  /** The broker answered a fetch or a heartbeat. */
  #answered(generation?: number): void {
    this.#progressed()
    this.#batches.answered()
    this.#watchdog.heard({ generation, isHeld: this.#batches.isHeld })
    // Before the join there are no answers.
    if (this.#isSilent && this.#watchdog.silentMs === 0) this.#begin()
  }

  #crashed({ error, restart }: Pick<ConsumerCrashEvent['payload'], 'error' | 'restart'>): void {
    const { text } = classifyError(error)
    this.close()
    this.outage = restart
      ? { state: 'recovering', reason: text }
      : {
          state: 'stopped',
          reason: `${text}; kafkajs has ended the consumer: create a new one, and wrap and run it`,
        }
    if (missingCodecIn(error) === undefined) return
    const err = new ConfigurationError(`A record cannot be read: ${codecAdvice(error)}`, {
      cause: error,
    })
    this.#port.logger.error(
      { err },
      'the consumer ends, because kafkajs cannot decompress a record',
    )
  }
}
