import type { Delivery } from '@onceward/core'
import type { DeadLetterRef } from '@onceward/core/ports'
import { describe, expect, it } from 'vitest'
import {
  fresh,
  type InboxCapabilities,
  newDelivery,
  newEvent,
  type Open,
  type Steps,
} from './inbox-under-test.ts'

const bytes = (text: string): Uint8Array => new TextEncoder().encode(text)

const sealed = (original: Delivery, by: string, body = bytes(`\x00\xff${by}`)): Delivery => ({
  ...original,
  ...{ body, headers: { 'onceward-sealed': by }, envelope: bytes(by), sealed: true },
})

async function refused<Tx>(
  { session }: Steps<Tx>,
  delivery: Delivery,
  original?: Delivery,
): Promise<DeadLetterRef> {
  const about = { reason: 'invalid-payload', error: 'no JSON' } as const
  const [ref] = await session.refuse([{ ...about, delivery, original }])
  if (ref === undefined) throw new Error('refuse() gave no answer')
  return ref
}

/** What an inbox of a guard with `seal` keeps: whether a stored delivery is sealed, and what is stored in place of a result. */
export function sealedTests<Tx>(open: Open<Tx>, { storesBytes }: InboxCapabilities): void {
  describe('what is sealed', () => {
    it('is told so of a dead letter and of a parked event, and nothing else of them changes', async () => {
      await using opened = await open()
      const { steps, subject } = opened
      expect(['ended', 'troubled']).toContain(steps.session.keepsSealed)
      const [dead, parked, plain] = [newEvent(), newEvent(), newEvent()]
      const of = new Map<string, Delivery>()
      for (const each of [dead, parked]) of.set(each.id, sealed(each.delivery, each.id))
      of.set(plain.id, plain.delivery)
      const withSealed = (event: typeof dead) => ({
        ...event,
        delivery: of.get(event.id) as Delivery,
      })
      const refs = [await steps.buried(withSealed(dead)), await steps.buried(plain)]
      await steps.session.park([withSealed(parked)], 250)
      for (const ref of refs) {
        expect((await steps.published(ref))?.delivery).toMatchObject(of.get(ref.id) as object)
        await subject.replay(ref)
      }
      const due = await steps.session.due(10)
      expect(due).toHaveLength(3)
      for (const { delivery, ref } of due) expect(delivery).toMatchObject(of.get(ref.id) as object)
      expect(due.map(({ delivery }) => delivery.sealed).toSorted()).toEqual([true, true, undefined])
      const others = await steps.session.due(10, [dead.id, plain.id])
      expect(others.map(({ ref }) => ref.id)).toEqual([parked.id])
    })

    it('is a refused message that is known by what it was before, and is stored as a whole', async () => {
      await using opened = await open()
      const { steps, subject } = opened
      // Sealed, an empty body is not empty, and a large one has other pieces.
      const bodies = [bytes('{}'), new Uint8Array(), new Uint8Array(storesBytes ? 5_000_000 : 9)]
      for (const body of bodies) {
        const original = newDelivery({ body, messageId: 'm-1' })
        const longer = bytes(`${'s'.repeat(body.byteLength)}sealed`)
        const ways = [original, sealed(original, 'k1', longer), sealed(original, 'k2', longer)]
        const refs: DeadLetterRef[] = []
        for (const way of ways) refs.push(await refused(steps, way, original))
        expect(new Set(refs.map(({ id }) => id)).size).toBe(1)
        const [ref] = refs as [DeadLetterRef]
        await subject.replay(ref)
        const [due] = await steps.session.due(10)
        const stored = due?.delivery
        const way = ways.find(
          ({ headers }) => headers['onceward-sealed'] === stored?.headers['onceward-sealed'],
        )
        expect({ sealed: stored?.sealed, bytes: stored?.body.byteLength }).toEqual({
          sealed: way?.sealed,
          bytes: way?.body.byteLength,
        })
        expect(Buffer.from(stored?.body ?? []).equals(Buffer.from(way?.body ?? []))).toBe(true)
        expect(stored?.envelope === undefined).toBe(way?.envelope === undefined)
        await steps.session.resolveRefused(ref.id)
      }
      const other = newDelivery({ messageId: 'm-2' })
      const hidden = sealed(other, 'k1')
      expect(await refused(steps, hidden, other)).not.toEqual(await refused(steps, hidden, hidden))
    })

    it('is a result whose text is given back as it was stored', async () => {
      await using opened = await open()
      const { steps } = opened
      const event = newEvent()
      const result = { 'onceward-sealed': 'AP8A/wA=' }
      await steps.commit(fresh(event), new Map([[event.id, JSON.stringify(result)]]))
      expect(await steps.known(event)).toMatchObject({ kind: 'done', result })
    })
  })
}
