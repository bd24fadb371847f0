import { describe, expect, it } from 'vitest'
import { newDelivery, newEvent, type Open } from './inbox-under-test.ts'

/** What adapters encode of a message is kept as it is, whatever it says. */
export function envelopeTests<Tx>(open: Open<Tx>): void {
  describe('an envelope', () => {
    const bytes = Uint8Array.from({ length: 512 }, (_, index) => index % 256)

    it.each([
      ['of all bytes', bytes],
      ['without bytes', new Uint8Array(0)],
      ['that is missing', undefined],
    ])('%s is kept with an event, and for its replay', async (_, envelope) => {
      await using opened = await open()
      const { steps, subject } = opened
      const ref = await steps.buried(newEvent({ delivery: newDelivery({ envelope }) }))
      expect((await steps.published(ref))?.delivery.envelope).toEqual(envelope)
      await subject.replay(ref)
      expect((await steps.session.due(10))[0]?.delivery.envelope).toEqual(envelope)
    })

    it('is kept with which item of a message it is, which no header says', async () => {
      await using opened = await open()
      const { steps, subject } = opened
      const item = { index: 7, hasBigints: true }
      const delivery = newDelivery({ item })
      const refusal = { delivery, reason: 'invalid-payload', error: 'bad' } as const
      const [refused] = await steps.session.refuse([refusal])
      if (refused === undefined) throw new Error('refuse() gave no answer')
      for (const ref of [refused, await steps.buried(newEvent({ delivery }))]) {
        expect((await steps.published(ref))?.delivery.item).toEqual(item)
        await subject.replay(ref)
      }
      const due = await steps.session.due(10)
      expect(due.map((each) => each.delivery.item)).toEqual([item, item])
    })

    it('is kept with a refused message', async () => {
      await using opened = await open()
      const { steps, subject } = opened
      const delivery = newDelivery({ envelope: bytes })
      const refusal = { delivery, reason: 'invalid-payload', error: 'bad' } as const
      const [ref] = await steps.session.refuse([refusal])
      if (ref === undefined) throw new Error('refuse() gave no answer')
      expect((await steps.published(ref))?.delivery.envelope).toEqual(bytes)
      await subject.replay(ref)
      expect((await steps.session.due(10))[0]?.delivery.envelope).toEqual(bytes)
    })
  })
}
