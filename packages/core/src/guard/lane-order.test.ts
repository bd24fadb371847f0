import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { changedInbox, silent } from '../fixtures/inbox.ts'
import { memoryInbox, memoryLeases, toDelivery } from '../memory/index.ts'
import type { Delivery } from '../model/delivery.ts'
import { InvalidPayloadError, RetryableError } from '../model/errors.ts'
import { createGuard } from './guard.ts'

const LANES = ['red', 'blue', undefined] as const
const KINDS = ['runs', 'runs', 'fails', 'unreadable', 'garbage'] as const

interface Sent {
  readonly lane: (typeof LANES)[number]
  readonly kind: (typeof KINDS)[number]
  readonly suspect: boolean
}

/** As a FIFO queue or a partition of Kafka delivers them. */
const sent = fc.record({
  lane: fc.constantFrom(...LANES),
  kind: fc.constantFrom(...KINDS),
  suspect: fc.boolean(),
})

const turn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve))

const UNRECORDED = () => ({
  inbox: changedInbox(memoryInbox(), () => ({
    refuse: () => Promise.reject(new Error('not now')),
  })),
})

const STORES = {
  'with an inbox': () => ({ inbox: memoryInbox() }),
  'with an inbox that cannot record what was refused': UNRECORDED,
  'with leases alone': () => ({ leases: memoryLeases(), onTakeover: 'retry' as const }),
}

interface Kit {
  readonly hasKeys: boolean
  readonly stores: (typeof STORES)[keyof typeof STORES]
}

/** Delivers all in one call. Answers the numbers of the events in the order in which their handlers began. */
async function run(all: readonly Sent[], { hasKeys, stores }: Kit) {
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
        headers: hasKeys ? { 'idempotency-key': `k${n}` } : {},
        ...(each.lane === undefined ? {} : { orderingKey: each.lane }),
        redelivered: each.suspect,
      },
    ),
  )
  const settlements = await guard.processBatch(deliveries)
  await guard.close()
  return { began, beside, settlements }
}

describe.each(Object.entries(STORES))('the order of a lane, %s', (_name, stores) => {
  /** A message that is refused never runs. It holds its lane only if the refusal could not be recorded. */
  const isRefused = ({ kind }: Sent): boolean => kind === 'garbage' && stores !== UNRECORDED

  test.each([
    ['events', true],
    ['messages without a key', false],
  ])(
    'property: %s run one after the other, and none behind one that comes again',
    async (_, hasKeys) => {
      await fc.assert(
        fc.asyncProperty(fc.array(sent, { maxLength: 12 }), async (all) => {
          const { began, beside, settlements } = await run(all, { hasKeys, stores })
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
        { numRuns: 300 },
      )
    },
  )
})
