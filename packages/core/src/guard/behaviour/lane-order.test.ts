import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { changedInbox, silent } from '../../fixtures/inbox.ts'
import { memoryInbox, memoryLeases, toDelivery } from '../../memory/index.ts'
import type { Delivery } from '../../model/delivery.ts'
import { InvalidPayloadError, RetryableError, StoreUnavailableError } from '../../model/errors.ts'
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

/** A connection that was cut while redelivered messages were counted, before they are read. */
const UNCOUNTED = () => ({
  inbox: changedInbox(memoryInbox(), (session) => ({
    messageCounts: session.messageCounts && {
      ...session.messageCounts,
      start: () => Promise.reject(new StoreUnavailableError('not now')),
    },
  })),
})

const STORES = {
  'with an inbox': () => ({ inbox: memoryInbox() }),
  'with an inbox and shared transactions': () => ({
    ...{ inbox: memoryInbox(), transaction: 'batch' as const },
  }),
  'with an inbox that cannot record what was refused': UNRECORDED,
  'with an inbox that cannot count redelivered messages': UNCOUNTED,
  'with an inbox and leases': () => ({ inbox: memoryInbox(), leases: memoryLeases() }),
  'with leases alone': () => ({ leases: memoryLeases(), onTakeover: 'retry' as const }),
}

type Stores = (typeof STORES)[keyof typeof STORES]

/** Whose key says what a lane is. With a key of the user, that of the broker is another one for each message. */
const KEYS = ['of the broker', 'of the user'] as const
type Key = (typeof KEYS)[number]

/** Delivers all in one call. Answers the numbers of the events in the order in which their handlers began. */
async function run(all: readonly Sent[], stores: Stores, key: Key) {
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
      orderingKey: key === 'of the user' ? ({ payload }) => payload.lane : undefined,
    },
    async ({ payload: { kind, lane, n } }) => {
      if (lane !== undefined && running.has(lane)) beside.push(lane)
      running.add(lane ?? '')
      began.push(n)
      await turn()
      running.delete(lane ?? '')
      if (kind === 'fails') throw new Error('not now')
    },
  )
  const deliveries: readonly Delivery[] = all.map((each, n) =>
    toDelivery(
      { ...each, n },
      {
        // Without headers of its own, a delivery of a test has a key.
        headers: each.hasKey ? { 'idempotency-key': `k${n}` } : {},
        orderingKey: key === 'of the user' ? `k${n}` : each.lane,
        redelivered: each.suspect,
      },
    ),
  )
  const settlements = await guard.processBatch(deliveries)
  await guard.close()
  // A shared transaction that fails is rolled back, and its events run again in parts.
  return { began: [...new Set(began)], beside, settlements }
}

const CASES = Object.entries(STORES).flatMap(([name, stores]) =>
  KEYS.map((key) => ({ name, stores, key })),
)

describe.each(CASES)('the order of a lane with the key $key, $name', ({ key, stores }) => {
  const isUnread = ({ kind, suspect }: Sent): boolean =>
    kind === 'unreadable' ||
    (kind === 'garbage' && stores === UNRECORDED) ||
    (suspect && stores === UNCOUNTED)
  /** A message that is refused never runs. It holds its lane only if the refusal could not be recorded. */
  const isRefused = (each: Sent): boolean => each.kind === 'garbage' && !isUnread(each)
  /** The lane of a message that could not be read is unknown if it is the user's, so it may be any lane. */
  const holds = (lane: Sent['lane'], each: Sent): boolean =>
    isUnread(each)
      ? key === 'of the user' || each.lane === lane
      : each.kind === 'fails' && each.lane === lane

  test.each([
    ['events', fc.constant(true)],
    ['messages without a key', fc.constant(false)],
    ['both together', fc.boolean()],
  ])(
    'property: %s run one after the other, and none behind one that comes again',
    async (_, hasKey) => {
      await fc.assert(
        fc.asyncProperty(fc.array(sentWith(hasKey), { maxLength: 12 }), async (all) => {
          const { began, beside, settlements } = await run(all, stores, key)
          expect(beside).toEqual([])
          for (const lane of LANES) {
            const stop = lane === undefined ? -1 : all.findIndex((each) => holds(lane, each))
            const mine = [...all.entries()].filter(([, each]) => each.lane === lane)
            const isOpen = (n: number): boolean => stop === -1 || n <= stop
            const runs = mine.filter(
              ([n, each]) => isOpen(n) && !isUnread(each) && ['runs', 'fails'].includes(each.kind),
            )
            const inLane = began.filter((n) => all[n]?.lane === lane)
            const ran = lane === undefined ? inLane.toSorted((a, b) => a - b) : inLane
            expect(ran).toEqual(runs.map(([n]) => n))
            for (const [n, each] of mine) {
              const isDone = isOpen(n) && !isUnread(each) && each.kind === 'runs'
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
    const { began, settlements } = await run(all, stores, 'of the broker')
    expect(began).toEqual([0])
    const [first, second] = settlements
    expect(first).toMatchObject({ kind: 'defer', cause: 'handler-failed' })
    expect(second).toMatchObject({ kind: 'defer', cause: 'lane-waits' })
    // The same delay, of which the second instant is made a moment later.
    expect(Object(second).until).toBeGreaterThanOrEqual(Object(first).until)
  })
})
