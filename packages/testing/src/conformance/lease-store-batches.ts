import type { ClaimResult } from '@onceward/core/ports'
import { describe, expect, it } from 'vitest'
import {
  DELAY_MS,
  LEASE_MS,
  type LeaseStoreCapabilities,
  LONG_MS,
  newClaim,
  newToken,
  type OpenLeases,
  REMEMBER_MS,
} from './lease-store-under-test.ts'

const isWon = ({ kind }: ClaimResult): boolean => kind === 'acquired'

/** Many events at once: in one call, and in concurrent calls. */
export function leaseBatchTests(open: OpenLeases, capabilities: LeaseStoreCapabilities): void {
  const { rivals, batch = 5_000 } = capabilities
  const fifth = batch / 5
  describe('a batch', () => {
    it('of no events returns no answers', async () => {
      await using opened = await open()
      const { store } = opened.subject
      const answers = [
        store.claim([]),
        store.renew([], LEASE_MS),
        store.complete([], REMEMBER_MS),
        store.fail([]),
        store.release([]),
        store.bury([], REMEMBER_MS),
      ]
      expect(await Promise.all(answers)).toEqual(answers.map(() => []))
    })

    it('of events in different states is answered in its order', async () => {
      await using opened = await open()
      const { steps, subject } = opened
      const dead = await steps.reach('dead')
      const done = await steps.reach('done')
      const waiting = await steps.reach('waiting')
      const held = await steps.reach('in-progress')
      const ids = [dead.id, undefined, waiting.id, done.id, undefined, held.id]
      const claims = ids.map((id) => newClaim(id === undefined ? {} : { id }))
      const kinds = (await subject.store.claim(claims)).map(({ kind }) => kind)
      const expected = ['dead', 'acquired', 'not-due', 'duplicate', 'acquired', 'in-progress']
      expect(kinds).toEqual(expected)
      const fates = await subject.store.renew([dead, held, newClaim(), waiting, done], LEASE_MS)
      expect(fates).toEqual(['lost', 'held', 'lost', 'lost', 'lost'])
    })

    it('with the same event several times is judged in its order', async () => {
      await using opened = await open()
      const { store } = opened.subject
      const mine = newClaim()
      const rival = { ...mine, ownerToken: newToken() }
      const between = newClaim()
      const claimed = await store.claim([mine, between, rival, mine])
      const kinds = claimed.map(({ kind }) => kind)
      expect(kinds).toEqual(['acquired', 'acquired', 'in-progress', 'acquired'])
      const done = [rival, mine, mine].map((held) => ({ ...held, result: 1 }))
      expect(await store.complete(done, REMEMBER_MS)).toEqual(['lost', 'held', 'lost'])
    })

    it('that fails, releases or buries one event twice does so once', async () => {
      await using opened = await open()
      const { store } = opened.subject
      const [failed, released, buried] = [newClaim(), newClaim(), newClaim()]
      await store.claim([failed, released, buried])
      const failing = { ...failed, delayMs: DELAY_MS }
      expect(await store.fail([failing, failing])).toEqual(['held', 'lost'])
      expect(await store.release([released, released])).toEqual(['held', 'lost'])
      const burying = { ...buried, reason: 'fatal' } as const
      expect(await store.bury([burying, burying], REMEMBER_MS)).toEqual(['held', 'lost'])
      expect(await store.renew([failed, released, buried], LEASE_MS)).toEqual([
        'lost',
        'lost',
        'lost',
      ])
    })

    it(`of ${batch} events passes through every verb`, async () => {
      await using opened = await open()
      const { store } = opened.subject
      const claims = Array.from({ length: batch }, () => newClaim())
      expect((await store.claim(claims)).filter(isWon)).toHaveLength(claims.length)
      const held = claims.map(() => 'held')
      expect(await store.renew(claims, LEASE_MS)).toEqual(held)
      const [done, failed] = [claims.slice(0, 2 * fifth), claims.slice(2 * fifth, 3 * fifth)]
      const [released, buried] = [claims.slice(3 * fifth, 4 * fifth), claims.slice(4 * fifth)]
      expect(await store.complete(done, REMEMBER_MS)).toEqual(held.slice(0, 2 * fifth))
      const failing = failed.map((claim) => ({ ...claim, delayMs: DELAY_MS }))
      expect(await store.fail(failing)).toEqual(held.slice(0, fifth))
      expect(await store.release(released)).toEqual(held.slice(0, fifth))
      const burying = buried.map((claim) => ({ ...claim, reason: 'fatal' as const }))
      expect(await store.bury(burying, REMEMBER_MS)).toEqual(held.slice(0, fifth))
      const again = await store.claim(claims.map(({ id }) => newClaim({ id })))
      const count = (kind: ClaimResult['kind']): number =>
        again.filter((answer) => answer.kind === kind).length
      const counts = ['duplicate', 'not-due', 'acquired', 'dead'] as const
      expect(counts.map(count)).toEqual([2 * fifth, fifth, fifth, fifth])
    })
  })

  describe('rivals', () => {
    it(`for one event have one winner: ${rivals} claims at the same time`, async () => {
      await using opened = await open()
      const { store } = opened.subject
      const { id } = newClaim()
      // However long ten thousand calls take, the lease of the winner runs on.
      const calls = Array.from({ length: rivals }, () =>
        store.claim([newClaim({ id, leaseMs: LONG_MS })]),
      )
      const answers = (await Promise.all(calls)).flat()
      expect(answers.filter(isWon)).toEqual([{ kind: 'acquired', by: 'first', attempt: 1 }])
      expect(answers.filter(({ kind }) => kind === 'in-progress')).toHaveLength(rivals - 1)
    })

    it('that take over one event have one winner', async () => {
      await using opened = await open()
      const { steps, subject } = opened
      const { id } = await steps.reach('expired')
      const calls = Array.from({ length: 100 }, () => subject.store.claim([newClaim({ id })]))
      const answers = (await Promise.all(calls)).flat()
      expect(answers.filter(isWon)).toEqual([{ kind: 'acquired', by: 'takeover', attempt: 2 }])
    })

    it('with overlapping batches in opposite orders all get answers', async () => {
      await using opened = await open()
      const { store } = opened.subject
      const ids = Array.from({ length: batch / 25 }, () => newClaim().id)
      const batchOf = (order: typeof ids) => store.claim(order.map((id) => newClaim({ id })))
      const batches = Array.from({ length: 8 }, (_, index) =>
        batchOf(index % 2 === 0 ? ids : ids.toReversed()),
      )
      const answers = (await Promise.all(batches)).flat()
      expect(answers.filter(isWon)).toHaveLength(ids.length)
    })
  })
}
