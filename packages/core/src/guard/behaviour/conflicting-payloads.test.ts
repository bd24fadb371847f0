import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { leased, named, setUp } from '../../fixtures/run.ts'
import { RetryableError } from '../../model/errors.ts'
import { stopsLane } from '../../settlement/outcome.ts'

interface Sent {
  readonly key: string
  readonly version: number
  readonly lane: string | undefined
}

const sent: fc.Arbitrary<Sent> = fc
  .record({ key: fc.constantFrom('a', 'b', 'c', 'd'), version: fc.constantFrom(1, 2, 3) })
  .map(({ key, version }) => ({
    ...{ key, version },
    lane: key === 'd' ? undefined : key === 'c' ? 'blue' : 'red',
  }))

const payloadOf = ({ key, version }: Sent): string => `${key}${version}`

const scenario = fc.record({
  /** The payload that each event had in an earlier call, and that it comes with in this one. */
  before: fc.uniqueArray(sent, { selector: ({ key }) => key, maxLength: 4 }),
  /** Payloads whose handler throws in the call. */
  failing: fc.subarray(['a1', 'a2', 'a3', 'b1', 'b2', 'b3', 'c1', 'c2', 'd1', 'd2']),
  wasRunBefore: fc.boolean(),
  all: fc.array(sent, { maxLength: 9 }),
})

const deliver = (each: Sent) =>
  named(each.key, payloadOf(each), each.lane === undefined ? {} : { orderingKey: each.lane })

describe.each([
  ['with an inbox', () => ({})],
  ['with leases alone', () => leased()],
])('several payloads under one key in one call, %s', (_, given) => {
  test('property: run in the order of their lane, none behind one that comes again', async () => {
    await fc.assert(
      fc.asyncProperty(scenario, async ({ all, before, failing, wasRunBefore }) => {
        let isBefore = true
        const kit = await setUp({
          given: given(),
          handler: ({ payload }) => {
            const isFailing = isBefore ? !wasRunBefore : failing.includes(String(payload))
            if (isFailing) throw new RetryableError('later', { afterMs: 0 })
          },
        })
        await kit.outcomes(before.map(deliver))
        isBefore = false
        const from = kit.ran.length
        const outcomes = await kit.outcomes(all.map(deliver))
        const ran = kit.ran.slice(from)
        for (const lane of ['red', 'blue']) {
          const mine = all.flatMap((each, index) => (each.lane === lane ? [index] : []))
          const stop = mine.find((index) => stopsLane(outcomes[index] as never)) ?? all.length
          const places = ran
            .map((payload) => mine.find((index) => payloadOf(all[index] as Sent) === payload))
            .filter((index) => index !== undefined)
          expect(places).toEqual(places.toSorted((a, b) => a - b))
          expect(places.filter((index) => index > stop)).toEqual([])
          for (const index of mine.filter((each) => each > stop)) {
            expect(outcomes[index]?.kind).not.toBe('processed')
          }
        }
        for (const key of ['a', 'b', 'c', 'd']) {
          const done = all.filter(
            (each, index) => each.key === key && outcomes[index]?.kind === 'processed',
          )
          expect(done.length).toBeLessThanOrEqual(1)
        }
      }),
      { numRuns: 150 },
    )
  })

  // Red when an event without a lane waits for the second payload of another event.
  test('an event without a lane waits for none of them', async () => {
    const other = Promise.withResolvers<void>()
    const kit = await setUp({
      given: given(),
      handler: ({ payload }) => {
        if (payload === 'other') other.resolve()
        return payload === 'a1' ? other.promise : undefined
      },
    })
    const all = [named('a', 'a1'), named('a', 'a2'), named('other')]
    expect((await kit.outcomes(all)).map(({ kind }) => kind)).toEqual([
      ...['processed', 'dead', 'processed'],
    ])
  })
})

test('a key that is the same for every message: the first payload runs, the others are refused', async () => {
  const { outcomes, ran } = await setUp()
  const all = Array.from({ length: 2_000 }, (_, n) => named('same', n, { orderingKey: 'lane' }))
  const [first, ...others] = await outcomes(all)
  expect(first).toMatchObject({ kind: 'processed' })
  expect(others.filter((each) => each.kind !== 'dead')).toEqual([])
  expect(ran).toEqual([0])
})
