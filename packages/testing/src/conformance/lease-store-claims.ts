import type { ClaimResult } from '@onceward/core/ports'
import { describe, expect, it } from 'vitest'
import {
  DELAY_MS,
  LEASE_MS,
  LONG_MS,
  NO_RULE,
  newClaim,
  newToken,
  type OpenLeases,
  OTHER_PAYLOAD,
  OTHER_RULE,
  REMEMBER_MS,
  STATES,
  type State,
} from './lease-store-under-test.ts'

type Expected = Partial<ClaimResult> & Pick<ClaimResult, 'kind'>

/** The answer to the claim of another owner. */
const ANSWERS: Readonly<Record<State, Expected>> = {
  'in-progress': { kind: 'in-progress' },
  expired: { kind: 'acquired', by: 'takeover', attempt: 2 },
  waiting: { kind: 'not-due' },
  due: { kind: 'acquired', by: 'retry', attempt: 2 },
  done: { kind: 'duplicate', result: 'sent' },
  dead: { kind: 'dead', reason: 'fatal' },
}

/** The column `claim` of the table. */
export function leaseClaimTests(open: OpenLeases): void {
  describe('a claim', () => {
    it('of an unknown event is its first attempt', async () => {
      await using opened = await open()
      const answer = await opened.steps.claim(newClaim())
      expect(answer).toEqual({ kind: 'acquired', by: 'first', attempt: 1 })
    })

    it.each(STATES)('of an event that is %s answers as the state table says', async (state) => {
      await using opened = await open()
      const { id } = await opened.steps.reach(state)
      expect(await opened.steps.claim(newClaim({ id }))).toMatchObject(ANSWERS[state])
    })

    it.each(STATES)(
      'with another payload of an event that is %s changes nothing',
      async (state) => {
        await using opened = await open()
        const { steps } = opened
        const mine = await steps.reach(state)
        const other = { ...mine, ownerToken: newToken(), fingerprint: OTHER_PAYLOAD }
        expect(await steps.claim(other)).toEqual({ kind: 'conflict' })
        expect(await steps.claim({ ...mine, fingerprint: OTHER_PAYLOAD })).toEqual({
          kind: 'conflict',
        })
        expect(await steps.tell('renew', other)).toBe('lost')
        expect(await steps.claim(newClaim({ id: mine.id }))).toMatchObject(ANSWERS[state])
      },
    )

    it.each(STATES)(
      'with a fingerprint of another rule for an event that is %s is not a conflict',
      async (state) => {
        await using opened = await open()
        const { steps } = opened
        const { id } = await steps.reach(state)
        const claim = newClaim({ id, fingerprint: OTHER_RULE })
        expect(await steps.claim(claim)).toMatchObject(ANSWERS[state])
      },
    )

    it.each(STATES)(
      'with fingerprints of no rule for an event that is %s is not a conflict',
      async (state) => {
        await using opened = await open()
        const { steps } = opened
        const [one, other] = NO_RULE
        const { id } = await steps.reach(state, { fingerprint: one })
        expect(await steps.claim(newClaim({ id, fingerprint: other }))).toMatchObject(
          ANSWERS[state],
        )
      },
    )

    it('that is repeated gets the first answer again, and counts once', async () => {
      await using opened = await open()
      const { steps } = opened
      const mine = newClaim()
      const first = { kind: 'acquired', by: 'first', attempt: 1 }
      expect(await steps.claim(mine)).toEqual(first)
      expect(await steps.claim(mine)).toEqual(first)
      const { id } = await steps.reach('expired')
      const successor = newClaim({ id })
      const second = { kind: 'acquired', by: 'takeover', attempt: 2 }
      expect(await steps.claim(successor)).toEqual(second)
      expect(await steps.claim(successor)).toEqual(second)
    })

    it('that is repeated with a shorter lease keeps the longer one', async () => {
      await using opened = await open()
      const { steps } = opened
      const mine = newClaim()
      await steps.claim(mine)
      expect(await steps.claim({ ...mine, leaseMs: 1 })).toMatchObject({ kind: 'acquired' })
      const rival = await steps.claim(newClaim({ id: mine.id }))
      expect(rival.kind === 'in-progress' && rival.remainingMs).toBeGreaterThan(LEASE_MS / 2)
    })

    it('returns the remaining time of a lease or wait', async () => {
      await using opened = await open()
      const { steps, subject } = opened
      const [running, waiting] = [await steps.reach('in-progress'), await steps.reach('waiting')]
      await subject.pass(LEASE_MS / 2)
      const answers = await subject.store.claim([
        newClaim({ id: running.id }),
        newClaim({ id: waiting.id }),
      ])
      const [lease, wait] = answers.map((answer) =>
        'remainingMs' in answer ? answer.remainingMs : Number.NaN,
      )
      expect(lease).toBeGreaterThan(0)
      expect(lease).toBeLessThanOrEqual(LEASE_MS / 2)
      expect(wait).toBeGreaterThan(DELAY_MS / 2 - LEASE_MS)
      expect(wait).toBeLessThanOrEqual(DELAY_MS - LEASE_MS / 2)
    })

    it('trap T2: takes over an event long after its lease, with its attempts counted', async () => {
      await using opened = await open()
      const { steps, subject } = opened
      const { id } = await steps.reach('in-progress')
      await subject.pass(LONG_MS)
      const successor = newClaim({ id })
      expect(await steps.claim(successor)).toEqual({ kind: 'acquired', by: 'takeover', attempt: 2 })
      expect(await steps.tell('fail', successor)).toBe('held')
      await subject.pass(LONG_MS)
      const third = await steps.claim(newClaim({ id }))
      expect(third).toEqual({ kind: 'acquired', by: 'retry', attempt: 3 })
    })

    it('trap T6: finds a done event done for the whole dedup window', async () => {
      await using opened = await open()
      const { steps, subject } = opened
      const { id } = await steps.reach('done')
      await subject.pass(REMEMBER_MS - LEASE_MS)
      expect(await steps.claim(newClaim({ id }))).toEqual({ kind: 'duplicate', result: 'sent' })
    })

    it.each(['expired', 'due'] as const)(
      'beyond the last attempt buries an event that is %s',
      async (state) => {
        await using opened = await open()
        const { steps } = opened
        const mine = await steps.reach(state)
        const { id } = mine
        const spent = { kind: 'dead', reason: 'attempts-spent' }
        expect(await steps.claim(newClaim({ id, maxAttempts: 1 }))).toEqual(spent)
        expect(await steps.claim(newClaim({ id, maxAttempts: 9 }))).toEqual(spent)
        expect(await steps.tell('complete', mine)).toBe('lost')
      },
    )

    it('without a maximum of attempts is never refused for its attempts', async () => {
      await using opened = await open()
      const { steps, subject } = opened
      const { id } = newClaim()
      for (let attempt = 1; attempt <= 12; attempt += 1) {
        expect(await steps.claim(newClaim({ id }))).toMatchObject({ kind: 'acquired', attempt })
        await subject.pass(LEASE_MS + 1)
      }
    })
  })
}
