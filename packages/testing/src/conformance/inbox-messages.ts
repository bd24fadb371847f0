import type { Delivery } from '@onceward/core'
import type { InboxSession, MessageCounts } from '@onceward/core/ports'
import { describe, expect, it } from 'vitest'
import { newDelivery, type Open, registration } from './inbox-under-test.ts'

const redelivered = (delivery: Delivery): Delivery => ({
  ...delivery,
  headers: { ...delivery.headers, 'x-delivery-count': '7' },
  redelivered: true,
  deliveryCount: 8,
})

/** Counts of messages that are read, for inboxes that have them. */
export function messageTests<Tx>(open: Open<Tx>): void {
  describe('the count of a message that is read', () => {
    it('starts at 1, stays when its reader dies, and grows with each read alone', async () => {
      await using opened = await open()
      const counts = countsOf(opened.steps.session)
      const [a, b] = [newDelivery(), newDelivery()]
      expect(await counts.start([a])).toEqual(['started'])
      // The broker's own counts do not make another message of it.
      expect(await counts.start([redelivered(a), b])).toEqual(['left', 'started'])
      expect(await counts.startAlone(redelivered(a))).toBe(2)
      expect(await counts.startAlone(a)).toBe(3)
      expect(await counts.startAlone(newDelivery())).toBe(1)
    })

    it('grows with each read that fails, counted at its start or not', async () => {
      await using opened = await open()
      const counts = countsOf(opened.steps.session)
      const [a, b] = [newDelivery(), newDelivery()]
      expect(await counts.failed([a, b, a])).toEqual([1, 1, 1])
      expect(await counts.failed([redelivered(a)])).toEqual([2])
      // A read that failed has ended, so the next one needs not be alone.
      expect(await counts.start([a])).toEqual(['started'])
      expect(await counts.failed([b, a])).toEqual([2, 3])
      await counts.start([a])
      expect(await counts.start([a])).toEqual(['left'])
      expect(await counts.startAlone(a)).toBe(5)
      expect(await counts.failed([a])).toEqual([5])
      await counts.end([a])
      expect(await counts.failed([a])).toEqual([1])
    })

    it('is gone once the message was read', async () => {
      await using opened = await open()
      const counts = countsOf(opened.steps.session)
      const all = Array.from({ length: 100 }, () => newDelivery())
      await counts.start(all)
      await counts.end(all.map(redelivered))
      expect(new Set(await counts.start(all))).toEqual(new Set(['started']))
      await counts.end([newDelivery()])
    })

    it('is one for the copies of a message, also when they are read at the same time', async () => {
      await using opened = await open()
      const counts = countsOf(opened.steps.session)
      const delivery = newDelivery({ messageId: 'm-1' })
      expect(await counts.start([delivery, redelivered(delivery)])).toEqual(['started', 'started'])
      const reads = await Promise.all([1, 2, 3].map(() => counts.startAlone(delivery)))
      expect(reads.toSorted()).toEqual([2, 3, 4])
      const others = Array.from({ length: 20 }, () => newDelivery())
      await Promise.all([
        counts.start(others),
        counts.start(others.toReversed()),
        counts.end([delivery]),
      ])
    })

    it('belongs to its consumer', async () => {
      await using opened = await open()
      const { steps, subject } = opened
      const delivery = newDelivery()
      await countsOf(steps.session).start([delivery])
      const other = registration(subject.runtime, { consumer: 'mailing' })
      const counts = countsOf(await subject.inbox.open(other))
      expect(await counts.start([delivery])).toEqual(['started'])
      await counts.end([delivery])
      expect(await countsOf(steps.session).start([delivery])).toEqual(['left'])
    })

    it('is gone when the refused message is replayed', async () => {
      await using opened = await open()
      const { steps, subject } = opened
      const delivery = newDelivery()
      const counts = countsOf(steps.session)
      for (let n = 0; n < 5; n += 1) await counts.startAlone(delivery)
      const refusal = { delivery, reason: 'no-verdict', error: new Error('it died') } as const
      const [ref] = await steps.session.refuse([refusal])
      expect(await counts.startAlone(delivery)).toBe(6)
      if (ref === undefined) throw new Error('refuse() gave no answer')
      await subject.replay(ref)
      expect(await counts.start([delivery])).toEqual(['started'])
    })
  })
}

function countsOf({ messageCounts }: Pick<InboxSession<unknown>, 'messageCounts'>): MessageCounts {
  if (messageCounts === undefined) throw new Error('the inbox has no counts of messages')
  return messageCounts
}
