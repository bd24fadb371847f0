import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { changedInbox, silent } from '../../fixtures/inbox.ts'
import { memoryInbox, memoryLeases, toDelivery } from '../../memory/index.ts'
import type { Delivery } from '../../model/delivery.ts'
import { InvalidPayloadError, RetryableError } from '../../model/errors.ts'
import { createGuard } from '../guard.ts'

const LANES = ['red', 'blue', undefined] as const
const KINDS = ['runs', 'runs', 'fails', 'unreadable', 'garbage'] as const

interface Sent {
  readonly lane: (typeof LANES)[number]
  readonly kind: (typeof KINDS)[number]
  readonly suspect: boolean
  readonly hasKey: boolean
}

/** As a FIFO queue or a partition of Kafka delivers them. */
const sentWith = (hasKey: fc.Arbitrary<boolean>): fc.Arbitrary<Sent> =>
  fc.record({
    lane: fc.constantFrom(...LANES),
    kind: fc.constantFrom(...KINDS),
    suspect: fc.boolean(),
    hasKey,
  })

const turn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve))

const UNRECORDED = () => ({
  inbox: changedInbox(memoryInbox(), () => ({
    refuse: () => Promise.reject(new Error('not now')),
  })),
})

const STORES = {
  'with an inbox': () => ({ inbox: memoryInbox() }),
  'with an inbox and shared transactions': () => ({
    ...{ inbox: memoryInbox(), transaction: 'batch' as const },
  }),
  'with an inbox that cannot record what was refused': UNRECORDED,
  'with an inbox and leases': () => ({ inbox: memoryInbox(), leases: memoryLeases() }),
  'with leases alone': () => ({ leases: memoryLeases(), onTakeover: 'retry' as const }),
}

/** Delivers all in one call. Answers the numbers of the events in the order in which their handlers began. */
async function run(all: readonly Sent[], stores: (typeof STORES)[keyof typeof STORES]) {
  const began: number[] = []
  const running = new Set<string>()
  const beside: string[] = []
  const guard = createGuard(
    {
      ...{ consumer: 'billing', logger: silent, onMissingKey: 'unguarded', ...stores() },
      decode: (body) => {
        const payload = JSON.parse(Buffer.from(body).toString()) as Sent & { readonly n: number }
        // The schema registry does not answer.
        if (payload.kind === 'unreadable') throw new RetryableError('not now')
        if (payload.kind === 'garbage') throw new InvalidPayloadError('garbage')
        return payload
      },
    },
    async ({ orderingKey, payload: { kind, n } }) => {
      if (orderingKey !== undefined && running.has(orderingKey)) beside.push(orderingKey)
      running.add(orderingKey ?? '')
      began.push(n)
      await turn()
      running.delete(orderingKey ?? '')
      if (kind === 'fails') throw new Error('not now')
    },
  )
  const deliveries: readonly Delivery[] = all.map((each, n) =>
    toDelivery(
      { ...each, n },
      {
        // Without headers of its own, a delivery of a test has a key.
        headers: each.hasKey ? { 'idempotency-key': `k${n}` } : {},
        ...(each.lane === undefined ? {} : { orderingKey: each.lane }),
        redelivered: each.suspect,
      },
    ),
  )
  const settlements = await guard.processBatch(deliveries)
  await guard.close()
  // A shared transaction that fails is rolled back, and its events run again in parts.
  return { began: [...new Set(began)], beside, settlements }
}

describe.each(Object.entries(STORES))('the order of a lane, %s', (_name, stores) => {
  /** A message that is refused never runs. It holds its lane only if the refusal could not be recorded. */
  const isRefused = ({ kind }: Sent): boolean => kind === 'garbage' && stores !== UNRECORDED

  test.each([
    ['events', fc.constant(true)],
    ['messages without a key', fc.constant(false)],
    ['both together', fc.boolean()],
  ])(
    'property: %s run one after the other, and none behind one that comes again',
    async (_, hasKey) => {
      await fc.assert(
        fc.asyncProperty(fc.array(sentWith(hasKey), { maxLength: 12 }), async (all) => {
          const { began, beside, settlements } = await run(all, stores)
          expect(beside).toEqual([])
          for (const lane of LANES) {
            const mine = [...all.entries()].filter(([, each]) => each.lane === lane)
            const comesAgain = ([, each]: (typeof mine)[number]): boolean =>
              each.kind !== 'runs' && !isRefused(each)
            const stop = lane === undefined ? -1 : mine.findIndex(comesAgain)
            const open = stop === -1 ? mine : mine.slice(0, stop + 1)
            const readable = open.filter(([, { kind }]) => kind === 'runs' || kind === 'fails')
            const inLane = began.filter((n) => all[n]?.lane === lane)
            const ran = lane === undefined ? inLane.toSorted((a, b) => a - b) : inLane
            expect(ran).toEqual(readable.map(([n]) => n))
            for (const entry of mine) {
              const [n, each] = entry
              const isDone = open.includes(entry) && each.kind === 'runs'
              const kind = isRefused(each) ? 'dead-letter' : isDone ? 'ack' : 'defer'
              expect(settlements[n]?.kind).toBe(kind)
            }
          }
        }),
        { numRuns: 100 },
      )
    },
  )
})

describe.each(Object.entries(STORES))('a message that fails, %s', (_name, stores) => {
  const fails = { lane: 'red', kind: 'fails', suspect: false } as const
  const runs = { lane: 'red', kind: 'runs', suspect: false } as const

  // Red when messages with and without a key have lanes of their own: the second one started first and was acked.
  test.each([
    ['without a key holds an event', false, true],
    ['with a key holds a message without one', true, false],
  ])('%s of its lane, which gets the same deferral', async (_title, ...keys) => {
    const all = [
      { ...fails, hasKey: keys[0] as boolean },
      { ...runs, hasKey: keys[1] as boolean },
    ]
    const { began, settlements } = await run(all, stores)
    expect(began).toEqual([0])
    const [first, second] = settlements
    expect(first).toMatchObject({ kind: 'defer', cause: 'handler-failed' })
    expect(second).toMatchObject({ kind: 'defer', cause: 'lane-waits' })
    // The same delay, of which the second instant is made a moment later.
    expect(Object(second).until).toBeGreaterThanOrEqual(Object(first).until)
  })
})
