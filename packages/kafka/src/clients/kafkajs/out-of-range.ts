import type { Logger } from '@onceward/core'
import { isError } from '@onceward/core/adapter'
import type { Partition } from '../../offsets.ts'

const DELETED = 'records were lost if retention deleted them: raise it, or consume faster'
/** kafkajs 2.2 means to ask the leader then, but takes its own note of the follower for none. */
const FOLLOWER =
  `${DELETED}. If not, a follower lags behind its leader: nothing is lost, but the partition is read again from its ` +
  'oldest record. Leave `consumer.rackId` out, so that leaders are read'

/**
 * kafkajs continues at the oldest record, and only its own log says that others were skipped.
 *
 * @param rackId - With one, kafkajs reads from followers.
 */
export const outOfRangeLog =
  (logger: Logger, fields: Readonly<Record<string, unknown>>, rackId: string | undefined) =>
  (error: unknown): void => {
    if (!isError(error) || error.name !== 'KafkaJSOffsetOutOfRange') return
    const { topic, partition } = error as Error & Partition
    const fix = rackId ? FOLLOWER : DELETED
    logger.error(
      { ...fields, topic, partition, fix },
      'the next records of a partition are no longer in its log; reading on at the oldest one',
    )
  }
