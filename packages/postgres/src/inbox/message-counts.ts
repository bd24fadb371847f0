import type { MessageCounts } from '@onceward/core/ports'
import { type ConsumerContext, texts } from '../driver/rows.ts'
import { refusedId } from './refused-messages.ts'

/** Counts by the id that the message has when it is refused. */
export function messageCounts({ driver, statements, consumerId }: ConsumerContext): MessageCounts {
  const consumer = String(consumerId)
  return {
    start: async (deliveries) => {
      const ids = deliveries.map((delivery) => refusedId(consumerId, delivery))
      const started = new Set(
        texts(await driver.query(statements.startMessages, [JSON.stringify(ids), consumer])),
      )
      return ids.map((id) => (started.has(id) ? 'started' : 'left'))
    },
    startAlone: async (delivery) => {
      const id = refusedId(consumerId, delivery)
      const [reads] = texts(await driver.query(statements.startMessageAlone, [id, consumer]))
      return Number(reads)
    },
    failed: async (deliveries) => {
      const ids = deliveries.map((delivery) => refusedId(consumerId, delivery))
      const answers = await driver.query(statements.failMessages, [JSON.stringify(ids), consumer])
      const times = new Map(texts(answers).map((text) => JSON.parse(text) as [string, number]))
      return ids.map((id) => times.get(id) as number)
    },
    end: async (deliveries) => {
      const ids = deliveries.map((delivery) => refusedId(consumerId, delivery))
      await driver.query(statements.endMessages, [`{${ids.join(',')}}`])
    },
  }
}
