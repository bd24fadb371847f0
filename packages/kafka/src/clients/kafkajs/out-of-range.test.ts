import { handMadeGuard } from '@onceward/testing/adapter'
import { expect, test } from 'vitest'
import { outOfRangeLog } from './out-of-range.ts'

const named = (name: string): object =>
  Object.assign(new Error('no'), { name, topic: 'orders', partition: 3 })

test('records that retention deleted are logged with their partition and what to do', () => {
  const { port, logged } = handMadeGuard()
  outOfRangeLog(port.logger, { group: 'billing' }, undefined)(named('KafkaJSOffsetOutOfRange'))
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

test('a consumer that reads from followers is told that one may lag, any other one is not', () => {
  for (const rackId of ['eu-1a', '', undefined]) {
    const { port, logged } = handMadeGuard()
    outOfRangeLog(port.logger, {}, rackId)(named('KafkaJSOffsetOutOfRange'))
    expect(JSON.stringify(logged).includes('consumer.rackId')).toBe(rackId === 'eu-1a')
  }
})

// A fetch fails for many reasons, which are an outage and lose no records.
test.each([named('KafkaJSConnectionError'), undefined, null, 'KafkaJSOffsetOutOfRange', 7])(
  'a fetch that failed by %s logs nothing',
  (error) => {
    const { port, logged } = handMadeGuard()
    outOfRangeLog(port.logger, {}, 'eu-1a')(error)
    expect(logged).toEqual([])
  },
)
