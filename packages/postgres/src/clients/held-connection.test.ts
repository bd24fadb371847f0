import { LATE } from '@onceward/core/adapter'
import { turn } from '@onceward/testing/adapter'
import { describe, expect, it, vi } from 'vitest'
import { settingsRow } from '../fixtures/claim-server.ts'
import { openHeld } from '../fixtures/held-connection.ts'
import { openOnPg } from '../fixtures/kysely.ts'
import type { Replies } from '../fixtures/scripted-server.ts'

async function openOverPg(replies: Replies = {}) {
  const given = await openHeld({ replies })
  given.held.session.learn(settingsRow())
  return given
}

describe.each([
  ['pg', openOverPg],
  ['Kysely', (replies: Replies = {}) => openOnPg(replies)],
] as const)('a connection in a transaction, over %s', (_, open) => {
  it('gives a statement up after its time, and leaves no timer', async () => {
    const { held, clock, backend } = await open({ select: { hangs: true } })
    const answered = vi.fn()
    void held.send(['select'], 3_000).then(answered)
    await clock.advance(2_999)
    expect([answered.mock.calls, held.isBusy()]).toEqual([[], true])
    await clock.advance(1)
    expect(answered).toHaveBeenCalledWith(LATE)
    const idle = vi.fn()
    void held.idle().then(idle)
    await turn()
    expect(idle).not.toHaveBeenCalled()
    backend.goOn()
    await turn()
    expect([idle.mock.calls.length, held.isBusy(), clock.timers]).toEqual([1, false, 0])
  })

  it('tells the encoding of its session', async () => {
    const { held, backend } = await open()
    expect(held.isUtf8()).toBe(true)
    backend.tell('client_encoding', 'LATIN1')
    await turn()
    expect(held.isUtf8()).toBe(false)
  })

  it.each(['release', 'destroy'] as const)('gives its slot back at its %s', async (way) => {
    const { held, pool, releaseSlot } = await open()
    await held.send(['rollback'], 1_000)
    held[way]()
    await turn()
    expect(pool.totalCount).toBe(way === 'release' ? 1 : 0)
    expect(releaseSlot).toHaveBeenCalledTimes(1)
  })

  it('stays whole if the server refuses a cancel, whose connection is closed', async () => {
    const { held, pool } = await open({ 'select pg_catalog.pg_cancel': { error: '42501' } })
    await held.cancel()
    await turn()
    expect(pool.totalCount).toBe(1)
    await held.send(['rollback'], 1_000)
    held.release()
    await turn()
    expect(pool.idleCount).toBe(1)
  })
})
