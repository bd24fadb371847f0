import { ConfigurationError, type WrappedConsumption } from '@onceward/core'
import {
  CallTimeoutError,
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
import { Feed } from './clients/kafkajs/feed.ts'
import { isConfluent } from './clients/producers.ts'
import { PulledBatches } from './clients/pulled/pulled-batches.ts'
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
 * `await guard.close()`. A `consumer.stop()` before the drain does not wait for the handlers, and
 * commits no offset of theirs: those records come again as duplicates.
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
  const batches = new PulledBatches({ port, settings, onRunnable: () => dispatcher.pump() })
  const dispatcher: Dispatcher = new Dispatcher({
    ...{ port, settings, batches, signals },
    onKnown: signals.progressed,
  })
  const publishers = new TopicPublishers(port, settings, batches)
  const feed: Feed = new Feed({
    ...{ consumer, runtime: port.runtime, sessionMs: SESSION_MS },
    events: {
      onAssigned: async () => {
        // Where a partition is read is known when its first records come.
        batches.assigned([])
      },
      onLost: (partitions) => batches.lost(partitions),
      onHeld: (isHeld) => batches.held(isHeld),
      onAnswered: () => {
        batches.answered()
        life.answered()
      },
      onFetched: (fetched, from) => {
        // Nothing more is taken: kafkajs need not go on.
        if (signals.stop.aborted) feed.pause([fetched])
        else if (!batches.owns(fetched)) {
          const { topic, partition } = fetched
          // The group may have a higher offset, if kafkajs has set its position back.
          batches.assigned([{ topic, partition, offset: from, isCommitted: false }])
        }
        batches.give([fetched])
      },
    },
  })
  const life = new ConsumerLife(port, feed, signals)
  const close = (): void => {
    life.close()
    dispatcher.close()
    publishers.close()
    batches.left()
  }
  batches.attach(feed)
  const { CRASH, GROUP_JOIN, STOP } = consumer.events
  // Requests of the one before may never be answered.
  consumer.on(CRASH, ({ payload }) => (payload.restart ? batches.attach(feed) : batches.left()))
  consumer.on(GROUP_JOIN, ({ payload }) => {
    if (!signals.stop.aborted) publishers.register(Object.keys(payload.memberAssignment))
  })
  consumer.on(STOP, close)
  life.follow(consumer, () => signals.stop.aborted)
  warnOfForeignCommits({ port, consumer, batches })
  signals.abort.addEventListener('abort', () => batches.abort(), { once: true })
  return {
    wrapped: {
      autoCommit: false,
      eachBatchAutoResolve: false,
      partitionsConsumedConcurrently: settings.partitionsConsumedConcurrently,
      eachBatch: feed.eachBatch,
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
}: Pick<Parts, 'port' | 'consumer'> & { readonly batches: PulledBatches }): void {
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
const SESSION_MS = 30_000
/** A join waits for every other member for `rebalanceTimeout`, so a healthy consumer may be silent for that long. */
const SILENT_MS = 60_000 + SESSION_MS
/** Between two looks at how long the consumer was silent. */
const LOOK_MS = 1_000
const SILENCE_FIX =
  'if it stays so, restart the process: no record of its partitions is read until the consumer has joined its group again'

/** What the events of a consumer say about its health. */
class ConsumerLife {
  outage: WrapOutage | undefined = JOINING
  readonly #port: GuardPort
  readonly #feed: Feed
  readonly #progressed: () => void
  #isSilent = false
  #endLooks: () => void = () => undefined

  constructor(port: GuardPort, feed: Feed, { progressed }: WrapSignals) {
    this.#progressed = progressed
    this.#port = port
    this.#feed = feed
  }

  /** @param isOver - A join does not bring its health back: nothing is processed any more. */
  follow(consumer: KafkaConsumer, isOver: () => boolean): void {
    const { CRASH, DISCONNECT, GROUP_JOIN, STOP } = consumer.events
    const stopped = (): void => {
      // Why the consumer ended matters more than that it did.
      if (this.outage?.state !== 'stopped') this.outage = STOPPED
    }
    consumer.on(GROUP_JOIN, () => {
      this.#progressed()
      if (!isOver()) this.#begin()
    })
    consumer.on(CRASH, ({ payload }) => this.#crashed(payload))
    consumer.on(STOP, stopped)
    consumer.on(DISCONNECT, stopped)
  }

  /** Ends the timer that would outlive the consumer. */
  close(): void {
    this.#isSilent = false
    this.#endLooks()
  }

  /** The broker answered this member of its group. */
  answered(): void {
    this.#progressed()
    // Before the join there are no answers.
    if (this.#isSilent) this.#begin()
  }

  #begin(): void {
    this.outage = undefined
    this.#isSilent = false
    this.#endLooks()
    this.#look()
  }

  #look(): void {
    const { runtime } = this.#port
    const look = (): void => {
      if (this.#feed.silentMs < SILENT_MS) this.#look()
      else this.#fellSilent()
    }
    this.#endLooks = runtime.setTimer(look, LOOK_MS, { keepAlive: false })
  }

  #fellSilent(): void {
    const reason = classifyError(new CallTimeoutError('A heartbeat of its group', SILENT_MS)).text
    this.outage = { state: 'recovering', reason }
    this.#isSilent = true
    this.#port.logger.warn({ reason, fix: SILENCE_FIX }, 'the consumer may not restart')
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
