import { expect, test } from 'vitest'
import { openInbox } from '../fixtures/inbox.ts'
import { toDelivery } from '../memory/to-delivery.ts'

test('a read that was left over keeps its count when the message is read with others', async () => {
  const { session } = await openInbox()
  const [left, other] = [toDelivery('left'), toDelivery('other')]
  expect(await session.messageCounts?.startAlone(left)).toBe(1)
  expect(await session.messageCounts?.startAlone(left)).toBe(2)
  expect(await session.messageCounts?.start([left, other])).toEqual(['left', 'started'])
  expect(await session.messageCounts?.startAlone(left)).toBe(3)
  expect(await session.messageCounts?.startAlone(other)).toBe(2)
})
