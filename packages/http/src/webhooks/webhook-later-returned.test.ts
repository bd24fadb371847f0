import { until } from '@onceward/testing'
import { expect, test } from 'vitest'
import { deliver, laterGuard } from '../fixtures/later.ts'

// Red when what the handler returns is ignored: the event was done, the provider had its 202, and the effect was lost.
test.each<readonly [string, () => unknown]>([
  ['a function', () => () => undefined],
  [
    'an asynchronous generator',
    async function* () {
      yield 1
    },
  ],
  ['a query that is not executed', async () => ({ execute: async () => undefined })],
])('a delivery whose handler runs later and returns %s fails', async (_what, handler) => {
  const { guard, records } = laterGuard(handler as () => void)
  expect(await deliver(guard, 'e')).toMatchObject({ status: 202 })
  await until(() => records.length === 2)
  expect(records[1]).toMatchObject({
    ...{ cause: 'handler-failed', parked: true },
    settlement: { error: { message: expect.stringContaining('a query that was not executed') } },
  })
  await guard.close()
})
