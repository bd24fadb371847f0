import { newDelivery } from '@onceward/testing/conformance'
import { expect, test } from 'vitest'
import { scriptedDriver } from '../fixtures/scripted-driver.ts'
import { messageCounts } from './message-counts.ts'
import { refusedId } from './refused-messages.ts'

const deliveries = [newDelivery(), newDelivery(), newDelivery()]
const [first, second, third] = deliveries.map((delivery) => refusedId(5, delivery))

test('messages whose row is new are started, in the order they came in', async () => {
  const { asked, context } = scriptedDriver([third, first])
  const answer = await messageCounts(context).start(deliveries)
  expect(answer).toEqual(['started', 'left', 'started'])
  expect(asked).toMatchObject([{ values: [JSON.stringify([first, second, third]), '5'] }])
})

test('a message that is read alone answers how often it was', async () => {
  const { asked, context } = scriptedDriver(['3'])
  expect(await messageCounts(context).startAlone(deliveries[0] as never)).toBe(3)
  expect(asked).toMatchObject([{ values: [first, '5'] }])
})

test('messages that were read are forgotten in one statement', async () => {
  const { asked, context } = scriptedDriver()
  await messageCounts(context).end(deliveries)
  expect(asked).toMatchObject([{ values: [`{${first},${second},${third}}`] }])
})
