import type { DeadLetterRef, InboxSession, OwnerToken } from '@onceward/core/ports'
import { describe, expect, it } from 'vitest'
import { newDelivery, newEvent, type Open, RIGHT_MS, strangeToken } from './inbox-under-test.ts'

/** The right to publish a dead letter: design.md §6, "Dead letters". */
export function publishingTests<Tx>(open: Open<Tx>): void {
  describe.each(['event', 'refused'] as const)('the right to publish (%s)', (kind) => {
    it('is taken by one of those who try at the same time', async () => {
      await using opened = await open()
      const { session } = opened.steps
      const ref = await deadLetter(opened, kind)
      const rights = await Promise.all(
        [1, 2, 3, 4].map(() => session.takePublishing(ref, RIGHT_MS)),
      )
      const kinds = rights.map((right) => right.kind).toSorted()
      expect(kinds).toEqual(['held', 'held', 'held', 'taken'])
    })

    it('ends by the clock of the store, and then the next one takes it', async () => {
      await using opened = await open()
      const { subject, steps } = opened
      const ref = await deadLetter(opened, kind)
      const first = await taken(steps.session, ref)
      await subject.pass(RIGHT_MS - 1_000)
      expect(await steps.session.takePublishing(ref, RIGHT_MS)).toEqual({ kind: 'held' })
      await subject.pass(2_000)
      const second = await taken(steps.session, ref)
      expect(second).not.toBe(first)
      // Who answers late does not mark over its successor, nor give back the right of its successor.
      expect(await steps.session.endPublishing(ref, first, 'published')).toBe('lost')
      expect(await steps.session.endPublishing(ref, first, 'failed')).toBe('lost')
      expect(await steps.session.takePublishing(ref, RIGHT_MS)).toEqual({ kind: 'held' })
      expect(await steps.session.endPublishing(ref, second, 'published')).toBe('recorded')
      expect(await steps.session.takePublishing(ref, RIGHT_MS)).toEqual({ kind: 'already' })
    })

    it('that was given back is taken at once', async () => {
      await using opened = await open()
      const { session } = opened.steps
      const ref = await deadLetter(opened, kind)
      const token = await taken(session, ref)
      expect(await session.endPublishing(ref, token, 'failed')).toBe('recorded')
      expect(await session.endPublishing(ref, token, 'published')).toBe('lost')
      expect(await session.endPublishing(ref, strangeToken(), 'published')).toBe('lost')
      await taken(session, ref)
    })

    it('that nobody took over is still its own after its time', async () => {
      await using opened = await open()
      const { subject, steps } = opened
      const ref = await deadLetter(opened, kind)
      const token = await taken(steps.session, ref)
      await subject.pass(RIGHT_MS * 2)
      expect(await steps.session.endPublishing(ref, token, 'published')).toBe('recorded')
      expect(await steps.session.takePublishing(ref, RIGHT_MS)).toEqual({ kind: 'already' })
    })

    it('keeps a replay away until its time is over, and a replay ends it for good', async () => {
      await using opened = await open()
      const { subject, steps } = opened
      const ref = await deadLetter(opened, kind)
      const token = await taken(steps.session, ref)
      await subject.replay(ref)
      expect(await steps.session.due(10)).toEqual([])
      await subject.pass(RIGHT_MS + 1_000)
      await subject.replay(ref)
      expect(await steps.session.due(10)).toMatchObject([{ ref, what: 'run' }])
      expect(await steps.session.endPublishing(ref, token, 'published')).toBe('lost')
      expect(await steps.session.due(10).then((due) => due.length)).toBeLessThanOrEqual(1)
    })
  })

  describe('a parked dead letter', () => {
    it('is not offered to the poller while it is being published', async () => {
      await using opened = await open()
      const { subject, steps } = opened
      const event = newEvent()
      const ref = await steps.buried(event)
      await subject.replay(ref)
      const { token, attempt } = await steps.countAlone(event)
      await steps.session.bury([{ event, token, attempt, error: 'x', reason: 'fatal' }])
      await taken(steps.session, ref)
      expect(await steps.session.due(10)).toEqual([])
      await subject.pass(3_600_000)
      expect(await steps.session.due(10)).toMatchObject([{ ref, what: 'publish' }])
    })

    it('that died again is published again, whatever a publisher of its first death says', async () => {
      await using opened = await open()
      const { subject, steps } = opened
      const event = newEvent()
      const ref = await steps.buried(event)
      const first = await taken(steps.session, ref)
      await subject.pass(RIGHT_MS + 1_000)
      await subject.replay(ref)
      const { token, attempt } = await steps.countAlone(event)
      await steps.session.bury([{ event, token, attempt, error: 'x', reason: 'fatal' }])
      expect(await steps.session.endPublishing(ref, first, 'published')).toBe('lost')
      expect(await steps.known(event)).toMatchObject({ kind: 'dead', published: false })
      await taken(steps.session, ref)
    })
  })
}

type Opened<Tx> = Awaited<ReturnType<Open<Tx>>>

async function deadLetter<Tx>(
  { steps }: Opened<Tx>,
  kind: DeadLetterRef['kind'],
): Promise<DeadLetterRef> {
  if (kind === 'event') return steps.buried()
  const refusal = { delivery: newDelivery(), reason: 'invalid-payload', error: 'bad' } as const
  const [ref] = await steps.session.refuse([refusal])
  if (ref === undefined) throw new Error('refuse() gave no answer')
  return ref
}

async function taken<Tx>(session: InboxSession<Tx>, ref: DeadLetterRef): Promise<OwnerToken> {
  const right = await session.takePublishing(ref, RIGHT_MS)
  if (right.kind !== 'taken') throw new Error(`expected the right to publish, got ${right.kind}`)
  return right.token
}
