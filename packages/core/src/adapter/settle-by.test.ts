import { expect, test } from 'vitest'
import type { Settlement } from '../model/settlement.ts'
import { settleBy } from './settle-by.ts'

const settle = settleBy<{ readonly queue: string }, number, string>(
  {
    ack: ({ queue }, id) => `${queue} ${id} acked`,
    defer: async (_context, _id, { reason }) => `deferred: ${reason}`,
    'dead-letter': () => Promise.reject(new Error('unroutable')),
    abandon: () => 'left',
  },
  async ({ queue }, id, { error, settlement }) => `${queue} ${id} ${settlement.kind}: ${error}`,
)
const context = { queue: 'orders' }

test('each settlement has its verb, and one that needs no call is answered at once', async () => {
  expect(settle(context, 7, { kind: 'ack', by: 'processed' })).toBe('orders 7 acked')
  expect(settle(context, 7, { kind: 'abandon', reason: 'closing' })).toBe('left')
  const defer = { kind: 'defer', reason: 'failed', until: 1 } as unknown as Settlement
  expect(await settle(context, 7, defer)).toBe('deferred: failed')
})

test('a call that failed is answered, and never rejects', async () => {
  const dead = { kind: 'dead-letter' } as Settlement
  expect(await settle(context, 7, dead)).toBe('orders 7 dead-letter: Error: unroutable')
})
