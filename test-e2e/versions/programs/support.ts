import assert from 'node:assert/strict'
import { createGuard, type Guard, type Inbox } from '@onceward/core'
import { toDelivery } from '@onceward/core/memory'

/** Waits for a condition, 60 s at most. */
export async function until(condition: () => boolean | Promise<boolean>): Promise<void> {
  const endAt = Date.now() + 60_000
  while (!(await condition())) {
    assert.ok(Date.now() < endAt, `waited in vain for ${condition}`)
    await new Promise((resolve) => setTimeout(resolve, 50))
  }
}

interface Client<Tx> {
  readonly inbox: Inbox<Tx>
  readonly write: (tx: Tx, orderId: string) => Promise<unknown>
  readonly run: (tx: Tx, sql: string) => Promise<unknown>
  /** The order ids in the table, in order. */
  readonly charged: () => Promise<string>
}

export const retry: { readonly baseMs: number; readonly maxMs: number } = {
  baseMs: 100,
  maxMs: 200,
}

/** Orders whose handler writes one row, then does what the order's name says. */
export function guardOf<Tx>({ inbox, write, run }: Client<Tx>): Guard {
  let failures = 0
  return createGuard<Tx, { orderId: string }>(
    { consumer: 'versions', inbox, eventKey: ({ payload }) => payload.orderId, retry },
    async ({ payload: { orderId } }, { tx }) => {
      await write(tx, orderId)
      if (orderId === 'cut') await run(tx, 'select pg_terminate_backend(pg_backend_pid())')
      if (orderId === 'commits') await run(tx, 'commit')
      if (orderId === 'fails-once' && failures++ === 0) throw new Error('the first attempt fails')
    },
  )
}

/** What an inbox promises, as far as it depends on the client below: with a real server. */
export async function proveInbox<Tx>(client: Client<Tx>): Promise<void> {
  const guard = guardOf(client)
  const end = async (orderId: string): Promise<string> => {
    const settlement = await guard.process(toDelivery({ orderId }))
    return settlement.kind === 'ack' ? settlement.by : `${settlement.kind} ${settlement.reason}`
  }
  assert.equal(await end('a'), 'processed')
  assert.equal(await end('a'), 'duplicate')
  assert.equal(await end('fails-once'), 'defer failed')
  assert.equal(await client.charged(), 'a')
  await until(async () => (await end('fails-once')) === 'processed')
  assert.match(await end('commits'), /^(defer|dead-letter)/)
  assert.match(await end('cut'), /^defer/)
  assert.equal(await end('b'), 'processed')
  assert.equal(await client.charged(), 'a,b,fails-once')
  await guard.close()
}
