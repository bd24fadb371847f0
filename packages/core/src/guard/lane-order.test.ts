import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { memoryInbox, memoryLeases, toDelivery } from '../memory/index.ts'
import type { Delivery } from '../model/delivery.ts'
import { RetryableError } from '../model/errors.ts'
import type { Logger } from '../model/logger.ts'
import { createGuard } from './guard.ts'

const LANES = ['red', 'blue', undefined] as const
const KINDS = ['runs', 'runs', 'fails', 'unreadable'] as const

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

const quiet = (): void => undefined
const silent: Logger = { debug: quiet, info: quiet, warn: quiet, error: quiet }
const turn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve))

const STORES = {
  'with an inbox': () => ({ inbox: memoryInbox() }),
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
        ...(hasKeys ? { headers: { 'idempotency-key': `k${n}` } } : {}),
        ...(each.lane === undefined ? {} : { orderingKey: each.lane }),
        redelivered: each.suspect,
      },
    ),
  )
  const settlements = await guard.processBatch(deliveries)
  await guard.close()
  return { began, beside, settlements }
}

describe.each(Object.entries(STORES))('the order of a lane, %s', (_, stores) => {
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
            const mine = all.flatMap((each, n) => (each.lane === lane ? [n] : []))
            const stop = lane === undefined ? -1 : mine.findIndex((n) => all[n]?.kind !== 'runs')
            const open = stop === -1 ? mine : mine.slice(0, stop + 1)
            const readable = open.filter((n) => all[n]?.kind !== 'unreadable')
            const inLane = began.filter((n) => all[n]?.lane === lane)
            expect(lane === undefined ? inLane.toSorted((a, b) => a - b) : inLane).toEqual(readable)
            for (const n of mine) {
              const isDone = open.includes(n) && all[n]?.kind === 'runs'
              expect(settlements[n]?.kind).toBe(isDone ? 'ack' : 'defer')
            }
          }
        }),
        { numRuns: 300 },
      )
    },
  )
})
