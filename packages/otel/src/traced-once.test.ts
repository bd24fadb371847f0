import { createGuard } from '@onceward/core'
import { memoryInbox, toDelivery } from '@onceward/core/memory'
import { expect, test } from 'vitest'
import { SDKS } from './fixtures/sdks.ts'
import { traced } from './traced.ts'

// Red when the span has a `then` of its own: the query runs once for the span and once for the guard.
test('a handler that answers the query builder of a library runs its query once', async () => {
  const { spans, tracerProvider } = (SDKS[0] as (typeof SDKS)[number])[1]()
  let queries = 0
  const query = {
    // biome-ignore lint/suspicious/noThenProperty: as the builders of Knex and Drizzle do
    then: (done: (value: number) => void) => {
      queries += 1
      setImmediate(() => done(queries))
    },
  } as unknown as Promise<number>
  const onDuplicate = (_: unknown, result: unknown): void => void results.push(result)
  const results: unknown[] = []
  const guard = createGuard(
    { consumer: 'billing', inbox: memoryInbox(), onDuplicate },
    traced(() => query, { tracerProvider }),
  )
  await guard.processBatch([toDelivery(1, { messageId: 'm' }), toDelivery(1, { messageId: 'm' })])
  await guard.close()
  expect([queries, results, spans().length]).toEqual([1, [1], 1])
})
