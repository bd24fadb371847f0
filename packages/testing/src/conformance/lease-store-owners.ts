import type { ClaimResult } from '@onceward/core/ports'
import { describe, expect, it } from 'vitest'
import {
  DELAY_MS,
  LEASE_MS,
  newClaim,
  newToken,
  type OpenLeases,
  STATES,
  type State,
  VERBS,
  type Verb,
} from './lease-store-under-test.ts'

type Expected = Partial<ClaimResult> & Pick<ClaimResult, 'kind'>

/** The answer to another owner's claim after a verb of the owner. */
const AFTER: Readonly<Record<Verb, Expected>> = {
  renew: { kind: 'in-progress' },
  complete: { kind: 'duplicate', result: 'sent' },
  fail: { kind: 'not-due' },
  release: { kind: 'acquired', by: 'first', attempt: 1 },
  bury: { kind: 'dead', reason: 'fatal' },
}

const NOT_IN_PROGRESS = STATES.filter((state) => state !== 'in-progress' && state !== 'expired')

/** The columns of the owner's verbs. */
export function leaseOwnerTests(open: OpenLeases): void {
  describe.each(VERBS)('%s', (verb) => {
    it.each(['in-progress', 'expired'] as const)(
      'is accepted from the owner of an event that is %s',
      async (state) => {
        await using opened = await open()
        const { steps } = opened
        const mine = await steps.reach(state)
        expect(await steps.tell(verb, mine)).toBe('held')
        expect(await steps.claim(newClaim({ id: mine.id }))).toMatchObject(AFTER[verb])
      },
    )

    it('is lost for an unknown event and does not create it', async () => {
      await using opened = await open()
      const { steps } = opened
      const stranger = newClaim()
      expect(await steps.tell(verb, stranger)).toBe('lost')
      expect(await steps.claim(stranger)).toMatchObject({ kind: 'acquired', by: 'first' })
    })

    it.each(STATES)('from another owner is lost for an event that is %s', async (state) => {
      await using opened = await open()
      const { steps } = opened
      const mine = await steps.reach(state)
      expect(await steps.tell(verb, { id: mine.id, ownerToken: newToken() })).toBe('lost')
      const isOwned = state === 'in-progress' || state === 'expired'
      expect(await steps.tell('renew', mine)).toBe(isOwned ? 'held' : 'lost')
    })

    it.each(NOT_IN_PROGRESS)(
      'from the last owner is lost for an event that is %s',
      async (state) => {
        await using opened = await open()
        const { steps } = opened
        const mine = await steps.reach(state)
        expect(await steps.tell(verb, mine)).toBe('lost')
        const before: Partial<Record<State, string>> = { waiting: 'not-due', due: 'acquired' }
        const kind = before[state] ?? (state === 'done' ? 'duplicate' : 'dead')
        expect(await steps.claim(newClaim({ id: mine.id }))).toMatchObject({ kind })
      },
    )

    it('trap T5: from a replaced owner is lost, and its successor keeps the event', async () => {
      await using opened = await open()
      const { steps } = opened
      const old = await steps.reach('expired')
      const successor = newClaim({ id: old.id })
      expect(await steps.claim(successor)).toMatchObject({ by: 'takeover' })
      expect(await steps.tell(verb, old)).toBe('lost')
      expect(await steps.tell('renew', successor)).toBe('held')
      expect(await steps.claim(old)).toMatchObject({ kind: 'in-progress' })
    })
  })

  describe('an owner', () => {
    it('keeps its lease as long as it renews', async () => {
      await using opened = await open()
      const { steps, subject } = opened
      const mine = await steps.reach('in-progress')
      for (let third = 0; third < 6; third += 1) {
        await subject.pass(LEASE_MS / 3)
        expect(await steps.tell('renew', mine)).toBe('held')
      }
      expect(await steps.claim(newClaim({ id: mine.id }))).toMatchObject({ kind: 'in-progress' })
    })

    // Red when the next claim is a retry: the handler would run, although the effect of the dead owner may have happened.
    it('that releases a takeover leaves it to the next claim', async () => {
      await using opened = await open()
      const { steps } = opened
      const { id } = await steps.reach('expired')
      const takeover = { kind: 'acquired', by: 'takeover', attempt: 2 }
      for (let time = 0; time < 2; time += 1) {
        const next = newClaim({ id })
        expect(await steps.claim(next)).toEqual(takeover)
        expect(await steps.tell('release', next)).toBe('held')
        expect(await steps.tell('release', next)).toBe('lost')
      }
      expect(await steps.claim(newClaim({ id }))).toEqual(takeover)
    })

    it('that releases a later attempt keeps the earlier ones counted', async () => {
      await using opened = await open()
      const { steps, subject } = opened
      const { id } = await steps.reach('due')
      for (const again of [1, 2]) {
        const next = newClaim({ id })
        expect(await steps.claim(next), `claim ${again}`).toMatchObject({ by: 'retry', attempt: 2 })
        expect(await steps.tell('release', next)).toBe('held')
      }
      await subject.pass(DELAY_MS)
      expect(await steps.claim(newClaim({ id }))).toMatchObject({ by: 'retry', attempt: 2 })
    })

    it('gets the result of a done event', async () => {
      await using opened = await open()
      const { store } = opened.subject
      const results = [undefined, null, '', 0, false, [], {}, 'a\0b\ud800"\\é🜁', { list: [null] }]
      const claims = results.map(() => newClaim())
      await store.claim(claims)
      const done = claims.map((claim, index) => ({ ...claim, result: results[index] }))
      expect(await store.complete(done, LEASE_MS)).toEqual(claims.map(() => 'held'))
      const again = await store.claim(claims.map(({ id }) => newClaim({ id })))
      expect(again).toEqual(results.map((result) => ({ kind: 'duplicate', result })))
    })

    it('may store a result of 64 KiB', async () => {
      await using opened = await open()
      const { steps, subject } = opened
      const mine = await steps.reach('in-progress')
      const result = '\u0001é"\\'.repeat(8_000)
      expect(await subject.store.complete([{ ...mine, result }], LEASE_MS)).toEqual(['held'])
      const answer = await steps.claim(newClaim({ id: mine.id }))
      expect(answer).toEqual({ kind: 'duplicate', result })
    })
  })
}
