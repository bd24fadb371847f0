import type { Logger } from '@onceward/core'
import { isError } from '@onceward/core/adapter'
import type { Partition } from '../offsets.ts'

/** kafkajs goes on at the oldest record, and tells nobody but its own log that others were skipped. */
export const outOfRangeLog =
  (logger: Logger, fields: Readonly<Record<string, unknown>>) =>
  (error: unknown): void => {
    if (!isError(error) || error.name !== 'KafkaJSOffsetOutOfRange') return
    const { topic, partition } = error as Error & Partition
    const fix = 'records were lost if retention deleted them: raise it, or consume faster'
    logger.error(
      { ...fields, topic, partition, fix },
      'the next records of a partition are no longer in its log; reading on at the oldest one',
    )
  }
