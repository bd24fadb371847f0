import { setImmediate as turn } from 'node:timers/promises'
import { describe, expect, test } from 'vitest'
import { changedInbox, silent } from '../../fixtures/inbox.ts'
import { memoryInbox, toDelivery } from '../../memory/index.ts'
import type { Delivery } from '../../model/delivery.ts'
import { FatalError, StoreUnavailableError } from '../../model/errors.ts'
import { portOf } from '../../model/guard-port.ts'
import type { InboxSession } from '../../model/inbox.ts'
import type { Settlement } from '../../model/settlement.ts'
import { createGuard } from '../guard.ts'

const MAX_BACKOFF_MS = 77_000
const deliveries = [
  toDelivery('no', { headers: { 'idempotency-key': 'dead' } }),
  toDelivery('yes', { headers: { 'idempotency-key': 'fine' } }),
]
const processed = { kind: 'ack', by: 'processed' }

/** The settlements of a dead letter and of another event, and what the adapter was told of each, in order. */
async function settled(
  isWhole: NonNullable<InboxSession<undefined>['isWhole']>,
  hooks: { readonly hasDeadLetterPlace?: boolean } = {},
) {
  const guard = createGuard(
    {
      ...{ consumer: 'billing', logger: silent, retry: { maxMs: MAX_BACKOFF_MS } },
      inbox: changedInbox(memoryInbox(), () => ({
        // A store on the network answers later than everything that this process does by itself.
        isWhole: async (...asked) => {
          await turn()
          return isWhole(...asked)
        },
      })),
    },
    ({ payload }) => {
      if (payload === 'no') throw new FatalError('no')
    },
  )
  const told: (readonly [number, Settlement['kind']])[] = []
  const onSettlement = (index: number, { kind }: Settlement): void => void told.push([index, kind])
  const settlements = await portOf(guard).run(deliveries, { onSettlement, ...hooks })
  const availability = portOf(guard).availability().kind
  await guard.close()
  return { settlements, told, availability }
}

describe('a dead letter whose only place is its record', () => {
  test('is settled when the record holds the whole message, which is asked for that message', async () => {
    const asked: Delivery[] = []
    const { settlements } = await settled(async (_, delivery) => {
      asked.push(delivery)
      return true
    })
    expect(settlements).toMatchObject([{ kind: 'dead-letter' }, processed])
    expect(asked).toEqual([deliveries[0]])
  })

  test('stays with the broker when the record does not hold the whole message', async () => {
    const nowMs = Date.now()
    const { settlements, told } = await settled(async () => false)
    expect(settlements).toMatchObject([
      { kind: 'defer', reason: 'failed', cause: 'not-stored' },
      processed,
    ])
    const { error, until } = settlements[0] as Extract<Settlement, { kind: 'defer' }>
    expect(String(error)).toContain('`maxStoredBytes`')
    expect(until).toBeGreaterThanOrEqual(nowMs + MAX_BACKOFF_MS)
    expect(told.toSorted()).toEqual([
      [0, 'defer'],
      [1, 'ack'],
    ])
  })

  test('stays with the broker when the store cannot say, and the breaker opens', async () => {
    const down = new StoreUnavailableError('the database is down')
    const { availability, settlements } = await settled(() => Promise.reject(down))
    expect(settlements).toMatchObject([
      { kind: 'defer', reason: 'store-down', cause: 'store-error', error: down },
      processed,
    ])
    expect(availability).toBe('down')
  })
})

test('a dead letter that the adapter publishes need not be whole in its record', async () => {
  const { settlements } = await settled(() => Promise.reject(new Error('not to be asked')), {
    hasDeadLetterPlace: true,
  })
  expect(settlements).toMatchObject([{ kind: 'dead-letter' }, processed])
})
