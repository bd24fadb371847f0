import { messageCountsBy } from '@onceward/core/adapter'
import type { MessageCounts } from '@onceward/core/ports'
import { type ConsumerContext, texts } from '../driver/rows.ts'
import { toUuid } from './refused-messages.ts'

/** Counts by the id that the message has when it is refused. */
export function messageCounts({ driver, statements, consumerId }: ConsumerContext): MessageCounts {
  const consumer = String(consumerId)
  const listOf = (hashes: readonly string[]): string => JSON.stringify(hashes.map(toUuid))
  return messageCountsBy(consumerId, {
    start: async (hashes) => {
      const values = [listOf(hashes), consumer]
      const started = new Set(texts(await driver.query(statements.startMessages, values)))
      return new Set(hashes.filter((hash) => started.has(toUuid(hash))))
    },
    startAlone: async (hash) => {
      const values = [toUuid(hash), consumer]
      const [reads] = texts(await driver.query(statements.startMessageAlone, values))
      return Number(reads)
    },
    failed: async (hashes) => {
      const answers = await driver.query(statements.failMessages, [listOf(hashes), consumer])
      const times = new Map(texts(answers).map((text) => JSON.parse(text) as [string, number]))
      return new Map(hashes.map((hash) => [hash, times.get(toUuid(hash)) as number]))
    },
    end: async (hashes) => {
      await driver.query(statements.endMessages, [`{${hashes.map(toUuid).join(',')}}`])
    },
  })
}
