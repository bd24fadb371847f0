import { describe, expect, test } from 'vitest'
import { openInbox } from '../fixtures/inbox.ts'
import { toDelivery } from '../memory/to-delivery.ts'
import type { Delivery } from '../model/delivery.ts'
import { registerDeliveryNames } from './adapter-registry.ts'
import { LocalMessageCounts } from './message-counts.ts'

test('a read that was left over keeps its count when the message is read with others', async () => {
  const { session } = await openInbox()
  const [left, other] = [toDelivery('left'), toDelivery('other')]
  expect(await session.messageCounts?.startAlone(left)).toBe(1)
  expect(await session.messageCounts?.startAlone(left)).toBe(2)
  expect(await session.messageCounts?.start([left, other])).toEqual(['left', 'started'])
  expect(await session.messageCounts?.startAlone(left)).toBe(3)
  expect(await session.messageCounts?.startAlone(other)).toBe(2)
})

interface Nameless {
  readonly id: string
  readonly isStored: boolean
}

describe('equal messages that nothing identifies', () => {
  const source = { broker: 'nameless-only', queue: 'orders' }
  registerDeliveryNames(source.broker, (raw) => raw as Nameless)
  const of = (id: string, more: Partial<Delivery> = {}, isStored = false): Delivery =>
    toDelivery({}, { source, messageId: undefined, headers: {}, raw: { id, isStored }, ...more })

  // Red when the failed reads of all are one count: ten of fifty spend the attempts of each.
  test('count their failed reads each, whether the read was counted when it began or not', async () => {
    const counts = new LocalMessageCounts().of('billing')
    const [one, other] = [of('1'), of('2')]
    expect(await counts.start([one, other])).toEqual(['started', 'started'])
    expect(await counts.failed([one, other])).toEqual([1, 1])
    expect(await counts.failed([one])).toEqual([2])
    expect(await counts.failed([other])).toEqual([2])
    // No read is left open, so none of them is read alone.
    expect(await counts.start([one, other])).toEqual(['started', 'started'])
  })

  test('are counted together before they are read, because the next process does not know the delivery', async () => {
    const counts = new LocalMessageCounts().of('billing')
    await counts.start([of('1')])
    expect(await counts.start([of('2')])).toEqual(['left'])
    expect(await counts.startAlone(of('3'))).toBe(2)
  })

  test('have failed at least as often as the broker has delivered them', async () => {
    const counts = new LocalMessageCounts().of('billing')
    expect(await counts.failed([of('1', { deliveryCount: 7 })])).toEqual([7])
  })

  test('are counted each when they are stored, and forgotten when they were read', async () => {
    const local = new LocalMessageCounts()
    const counts = local.of('billing')
    const [one, other] = [of('1', {}, true), of('2', {}, true)]
    expect(await counts.startAlone(one)).toBe(1)
    expect(await counts.start([one, other])).toEqual(['left', 'started'])
    await counts.end([one, other])
    expect(local.size).toBe(0)
  })
})
