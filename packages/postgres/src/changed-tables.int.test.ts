import { ConfigurationError } from '@onceward/core'
import { portOf } from '@onceward/core/adapter'
import { database } from '@onceward/testing'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { DRIVERS, type Guards, order } from './fixtures/guards.ts'
import { migrate } from './operators/migrate.ts'

// An administrator, or a restore that is under way, has changed the tables while consumers run.

describe.each(DRIVERS)('a guard over $name', ({ connect, name }) => {
  let guards: Guards

  beforeAll(async () => {
    guards = await connect({ url: (await database()).url })
    if (guards.pool !== undefined) await migrate(guards.pool)
    await guards.admin('create table effects (key text)')
  })
  afterAll(() => guards.close())

  const makeGuard = (consumer: string) =>
    guards.make(
      async ({ payload: { key } }, run) => {
        await run('insert into effects values ($1)', [key])
        return undefined
      },
      { consumer },
    )

  // Red where a claim names no column: without a unique index nothing conflicts, and the effect happens twice. A restore
  // makes the keys last.
  it('runs no copy while processed_events has no primary key, and says so', async () => {
    const first = makeGuard(name)
    const copy = order()
    expect(await first.process(copy)).toEqual({ kind: 'ack', by: 'processed' })
    await guards.admin(
      'alter table onceward.processed_events drop constraint processed_events_pkey',
    )
    const second = makeGuard(name)
    await expect(second.process(copy)).rejects.toThrow(/has no primary key.*add the key again/)
    await guards.admin('alter table onceward.processed_events add primary key (event_id)')
    const third = makeGuard(name)
    expect(await third.process(copy)).toEqual({ kind: 'ack', by: 'duplicate' })
    expect(await guards.admin('select count(*)::int as n from effects')).toEqual([{ n: 1 }])
    await Promise.all([first, second, third].map((guard) => guard.close()))
  })

  // Red when only a store that is down opens the breaker: the queue counts a receive each time, until it gives the
  // message up.
  it('pauses its consumer while a table is missing, and health names the inbox', async () => {
    const guard = makeGuard(name)
    const port = portOf(guard)
    await port.open()
    await guards.admin('alter table onceward.processed_events rename to hidden')
    await expect(guard.process(order())).rejects.toBeInstanceOf(ConfigurationError)
    expect(port.availability()).toMatchObject({ kind: 'down' })
    expect(port.outages()).toMatchObject([{ dependency: 'inbox', error: expect.any(Error) }])
    await guards.admin('alter table onceward.hidden rename to processed_events')
    await guard.close()
  })
})
