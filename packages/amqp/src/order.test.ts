import type { Settlement } from '@onceward/core'
import { expect, test } from 'vitest'
import { consuming } from './fixtures/consuming.ts'
import { message } from './fixtures/recording-channel.ts'

const until = 3_600_000 as never
const SETTLEMENTS: readonly Settlement[] = [
  ...(['processed', 'duplicate', 'skipped', 'conflict', 'unguarded'] as const).map(
    (by) => ({ kind: 'ack', by }) as Settlement,
  ),
  ...(['in-progress', 'not-due', 'failed', 'store-down'] as const).map(
    (reason) => ({ kind: 'defer', reason, until }) as Settlement,
  ),
  ...(['lease-lost', 'deadline', 'commit-unknown'] as const).map(
    (reason) => ({ kind: 'abandon', reason }) as Settlement,
  ),
  { kind: 'dead-letter', reason: 'fatal' } as Settlement,
]

// Red when a settlement does not free its order key: no later message of the key ever runs in this process.
test.each(SETTLEMENTS)(
  'the next message with the same order key runs after a settlement: %j',
  async (settlement) => {
    const { connection, clock, handed } = await consuming()
    const headers = { 'x-order-key': 'customer' }
    for (const [at, key] of ['a', 'b'].entries()) {
      connection.consuming.callback?.(
        message(key, { deliveryTag: at + 1 }, { headers: { ...headers, key } }),
      )
      await clock.advance(0)
    }
    expect(handed).toHaveLength(1)
    handed[0]?.settle(settlement)
    await clock.advance(0)
    expect(handed.map(({ delivery }) => delivery.headers['key'])).toEqual(['a', 'b'])
  },
)
