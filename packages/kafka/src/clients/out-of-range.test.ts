import { handMadeGuard } from '@onceward/testing/adapter'
import { expect, test } from 'vitest'
import { outOfRangeLog } from './out-of-range.ts'

const named = (name: string): object =>
  Object.assign(new Error('no'), { name, topic: 'orders', partition: 3 })

test('records that retention deleted are logged with their partition and what to do', () => {
  const { port, logged } = handMadeGuard()
  outOfRangeLog(port.logger, { group: 'billing' })(named('KafkaJSOffsetOutOfRange'))
  expect(logged).toEqual([
    {
      level: 'error',
      fields: {
        ...{ group: 'billing', topic: 'orders', partition: 3 },
        fix: expect.stringContaining('retention'),
      },
      text: 'the next records of a partition are no longer in its log; reading on at the oldest one',
    },
  ])
})

// A fetch fails for many reasons, which are an outage and lose no records.
test.each([named('KafkaJSConnectionError'), undefined, null, 'KafkaJSOffsetOutOfRange', 7])(
  'a fetch that failed by %s logs nothing',
  (error) => {
    const { port, logged } = handMadeGuard()
    outOfRangeLog(port.logger, {})(error)
    expect(logged).toEqual([])
  },
)
