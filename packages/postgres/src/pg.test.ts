import { Clock, turn } from '@onceward/testing/adapter'
import { fresh, newEvent, registration } from '@onceward/testing/conformance'
import { Pool } from 'pg'
import { describe, expect, it, test } from 'vitest'
import { claimServer, opened } from './fixtures/claim-server.ts'
import { pgInbox } from './pg.ts'

describe('an inbox on settings of pg', () => {
  it('makes a pool for each guard, and ends it with the guard', async () => {
    const server = claimServer()
    const inbox = pgInbox({ ...server.config, max: 3 })
    const guards = [new Clock(), new Clock()].map(({ runtime }) =>
      inbox.open(registration(runtime)),
    )
    const [first, second] = await Promise.all(guards)
    expect(server.backends.length).toBe(2)
    await first?.close?.()
    await turn()
    expect(server.backends.filter(({ destroyed }) => destroyed).length).toBe(1)
    expect(opened(await second!.begin(fresh(newEvent())))).toBeDefined()
  })

  // Red when they are set for each transaction: the guard is slower than it says.
  it('bounds the sessions of that pool, which are its own', async () => {
    const server = claimServer()
    const session = await pgInbox(server.config).open(registration(new Clock().runtime))
    await session.begin(fresh(newEvent()))
    expect(server.sent.join('; ')).toContain('; set statement_timeout = 30000; '.slice(2))
    expect(session.concurrency).toBe(4)
  })
})

test('an inbox on a pool leaves that pool to its owner', async () => {
  const server = claimServer()
  const pool = new Pool({ ...server.config, max: 3 })
  const session = await pgInbox(pool).open(registration(new Clock().runtime))
  await session.begin(fresh(newEvent()))
  expect(server.sent.join('; ')).not.toContain('set statement_timeout')
  await session.close?.()
  expect(pool.ended).toBe(false)
  expect(session.poolUse?.()).toEqual({ used: 1, idle: 0, waiting: 0, size: 3 })
})
