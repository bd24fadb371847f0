import type { LeaseOperators } from '@onceward/core/ports'
import { describe, expect, it, type TestContext } from 'vitest'
import {
  newClaim,
  newToken,
  type OpenedLeases,
  type OpenLeases,
  OTHER_PAYLOAD,
  STATES,
  VERBS,
} from './lease-store-under-test.ts'

/** Operations of operators, whichever owner holds the event. */
export function leaseOperatorTests(open: OpenLeases): void {
  describe('an operator', () => {
    it.for(STATES)('replays an event that is %s only if it is dead', async (state, { skip }) => {
      await using opened = await open()
      const { steps } = opened
      const { id } = await steps.reach(state)
      const isDead = state === 'dead'
      expect(await operatorsOf(opened, skip).replay([id])).toEqual([isDead])
      if (!isDead) return
      const again = newClaim({ id, maxAttempts: 1 })
      expect(await steps.claim(again)).toEqual({ kind: 'acquired', by: 'retry', attempt: 1 })
    })

    it('replays an event, which stays known when its run is released', async ({ skip }) => {
      await using opened = await open()
      const { steps } = opened
      const { id } = await steps.reach('dead')
      await operatorsOf(opened, skip).replay([id])
      for (const turn of [1, 2]) {
        const again = newClaim({ id })
        const answer = await steps.claim(again)
        expect(answer, `turn ${turn}`).toEqual({ kind: 'acquired', by: 'retry', attempt: 1 })
        expect(await steps.tell('release', again)).toBe('held')
      }
      const other = newClaim({ id, fingerprint: OTHER_PAYLOAD })
      expect(await steps.claim(other)).toEqual({ kind: 'conflict' })
    })

    it('replays an event again after it has died again', async ({ skip }) => {
      await using opened = await open()
      const { steps } = opened
      const { id } = await steps.reach('dead')
      const operators = operatorsOf(opened, skip)
      for (const turn of [1, 2]) {
        expect(await operators.replay([id]), `turn ${turn}`).toEqual([true])
        const again = newClaim({ id })
        await steps.claim(again)
        expect(await steps.tell('bury', again)).toBe('held')
        expect(await steps.claim(newClaim({ id }))).toEqual({ kind: 'dead', reason: 'fatal' })
      }
    })

    it.for(STATES)(
      'forgets an event that is %s, so that it is new again',
      async (state, { skip }) => {
        await using opened = await open()
        const { steps } = opened
        const mine = await steps.reach(state)
        expect(await operatorsOf(opened, skip).forget([mine.id])).toEqual([true])
        for (const verb of VERBS) expect(await steps.tell(verb, mine), verb).toBe('lost')
        const other = newClaim({ id: mine.id, ownerToken: newToken(), fingerprint: OTHER_PAYLOAD })
        expect(await steps.claim(other)).toEqual({ kind: 'acquired', by: 'first', attempt: 1 })
      },
    )

    it('changes nothing about unknown events, and each event only once', async ({ skip }) => {
      await using opened = await open()
      const { steps } = opened
      const operators = operatorsOf(opened, skip)
      const [dead, done] = [await steps.reach('dead'), await steps.reach('done')]
      const ids = [newClaim().id, dead.id, done.id, dead.id]
      expect(await operators.replay(ids)).toEqual([false, true, false, false])
      expect(await operators.forget(ids)).toEqual([false, true, true, false])
      expect(await operators.replay([])).toEqual([])
      expect(await operators.forget([])).toEqual([])
    })
  })
}

/** Another store may have no operators. */
function operatorsOf({ subject }: OpenedLeases, skip: TestContext['skip']): LeaseOperators {
  const { replay, forget } = subject.store
  skip(replay === undefined || forget === undefined, 'the store has no operators')
  return subject.store as LeaseOperators
}
