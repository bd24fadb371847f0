import { ConfigurationError } from '@onceward/core'
import { type Guard, portOf } from '@onceward/core/adapter'
import type { ConsumerRunConfig } from 'kafkajs'
import type { KafkaConsumer } from './client.ts'
import { PartitionBatches } from './clients/partition-batches.ts'
import { TopicPublishers } from './dead-letter.ts'
import { Dispatcher } from './dispatch.ts'
import { codecAdvice, missingCodecIn } from './errors.ts'
import { checkWrapNames, resolveSettings, type WrapKafkaOptions } from './options.ts'

/**
 * The guard as the config of your own `consumer.run(…)`.
 *
 * ```ts
 * await consumer.run(wrapKafka(consumer, billing))
 * ```
 *
 * The same engine as `consumeKafka`: offsets are committed up to the first record that is not settled, slow and
 * deferred records hold back their key and nothing else, a rebalance is answered in time. Call it once per consumer,
 * before `run`, and change nothing of what it answers: with `autoCommit` or `eachBatchAutoResolve`, offsets would pass
 * records that are not done.
 *
 * A wrapped consumer is not brought back when kafkajs ended it for good (see `consumer.events.CRASH` with
 * `restart: false`), nor kept from coming back after `stop()`. Its settings are not checked at start
 * (`maxWaitTimeInMs` must be a third of `sessionTimeout` or less). It does not drain in bounded time, and the identity
 * that `position()` makes does not contain the cluster. `consumeKafka` does all that. A `consumer.seek` of your own
 * skips records.
 * To shut down: `await consumer.stop()`, `await guard.close()`, `await consumer.disconnect()`. Handlers that outlive the
 * stop end, but their offsets are not committed any more: their records come again as duplicates.
 *
 * @throws {@link ConfigurationError} for options that cannot work.
 */
export function wrapKafka(
  consumer: KafkaConsumer,
  guard: Guard,
  options: WrapKafkaOptions = {},
): ConsumerRunConfig {
  const port = portOf(guard)
  checkWrapNames(options)
  const settings = resolveSettings(options, port.settings)
  const batches = new PartitionBatches({ port, settings, onRunnable: () => dispatcher.pump() })
  const ignore = (): void => undefined
  const dispatcher: Dispatcher = new Dispatcher({ port, settings, batches, onKnown: ignore })
  const publishers = new TopicPublishers(port, settings)
  const { CRASH, FETCH, GROUP_JOIN, HEARTBEAT, REBALANCING, STOP } = consumer.events
  const eachBatch = batches.attach(consumer)
  consumer.on(GROUP_JOIN, ({ payload }) => {
    publishers.register(Object.keys(payload.memberAssignment))
    batches.joined(payload)
  })
  consumer.on(REBALANCING, () => batches.rebalancing())
  consumer.on(FETCH, () => batches.answered())
  consumer.on(HEARTBEAT, () => batches.answered())
  consumer.on(CRASH, ({ payload: { error } }) => {
    batches.left()
    if (missingCodecIn(error) === undefined) return
    const err = new ConfigurationError(`A record cannot be read: ${codecAdvice(error)}`, {
      cause: error,
    })
    port.logger.error({ err }, 'the consumer ends, because kafkajs cannot decompress a record')
  })
  consumer.on(STOP, () => {
    dispatcher.close()
    publishers.close()
  })
  return {
    autoCommit: false,
    eachBatchAutoResolve: false,
    partitionsConsumedConcurrently: settings.partitionsConsumedConcurrently,
    eachBatch,
  }
}
