import { RetryableError } from '@onceward/core'
import { turn } from '@onceward/testing/adapter'
import type { PoolClient } from 'pg'
import { describe, expect, it, test, vi } from 'vitest'
import { settingsRow } from '../fixtures/claim-server.ts'
import { openHeld } from '../fixtures/held-connection.ts'
import { connectForStatements } from './pg-connection.ts'

describe('statements of onceward', () => {
  it('have the answer of the last one, or of each of them', async () => {
    const { held } = await openHeld({
      replies: { select: { row: { a: '1' } }, insert: { tag: 'INSERT 0 2' } },
    })
    expect(await held.send(['insert', 'insert', 'select'], 1_000)).toEqual({
      ...{ rows: [{ a: '1' }], rowCount: 1, command: 'SELECT' },
    })
    const inserted = { rows: [], rowCount: 2, command: 'INSERT' }
    expect(await held.send(['select', 'insert'], 1_000)).toEqual(inserted)
    expect(await held.send(['savepoint'], 1_000)).toMatchObject({ rowCount: 0 })
    const all = await held.sendAll(['select', 'insert'], 1_000, 'rows')
    expect(all).toMatchObject([{ command: 'SELECT' }, inserted])
    expect(await held.sendAll(['insert'], 1_000, 'no-rows')).toMatchObject([inserted])
  })

  it('have no rows where a function in place of `query` answers nothing', async () => {
    const { held } = await openHeld()
    vi.spyOn(held.tx.constructor.prototype as PoolClient, 'query').mockResolvedValue([] as never)
    expect(await held.send(['select'], 1_000)).toEqual({
      ...{ rows: [], rowCount: 0, command: undefined },
    })
    vi.restoreAllMocks()
  })

  it('travel in one flush, and are counted', async () => {
    const { held, server } = await openHeld()
    server.sent.length = 0
    const before = held.commands()
    await held.send(['one', 'two'], 1_000)
    expect(server.sent).toEqual(['one; two'])
    expect(held.commands() - before).toBe(2)
  })

  it('reject with the error of the server, and leave no timer', async () => {
    const { held, clock } = await openHeld({ replies: { insert: { error: '23505' } } })
    await expect(held.send(['insert'], 1_000)).rejects.toMatchObject({ code: '23505' })
    expect([held.status(), clock.timers]).toEqual(['failed', 0])
  })

  // Red when rows are read by the parsers of the user: a date of theirs would not be the text that onceward reads.
  it('have rows of texts, whatever parsers the user has', async () => {
    const { held, lender } = await openHeld({ replies: { select: { row: { a: '1' } } } })
    Object.assign(held.tx, { _types: { getTypeParser: () => () => 'parsed' } })
    expect(await held.send(['select'], 1_000)).toMatchObject({ rows: [{ a: '1' }] })
    expect(await held.sendAll(['select'], 1_000, 'no-rows')).toMatchObject([
      { rows: [{ a: 'parsed' }] },
    ])
    held.destroy()
    const short = await connectForStatements(lender.pool, lender.runtime)
    expect((await short.query('select $1', ['a'])).rows).toEqual([{ a: '1' }])
    expect((await short.send(['insert', 'insert', 'select'])).rows).toEqual([{ a: '1' }])
  })
})

describe('short statements', () => {
  // Red when the texts of another encoding are stored: what an event holds would be read as other characters.
  it('are sent in UTF-8 where other code has told the server another encoding', async () => {
    const { pool, lender, server, held } = await openHeld()
    held.destroy()
    const short = await connectForStatements(pool, lender.runtime)
    server.sent.length = 0
    for (const _ of ['first', 'again']) await short.send(['one', 'two'])
    // No statement has been sent on a new connection yet.
    const SET = "set client_encoding = 'UTF8'"
    expect(server.sent).toEqual([SET, 'one; two', 'one; two'])
    server.backends[1]?.tell('client_encoding', 'LATIN1')
    await turn()
    server.sent.length = 0
    for (const _ of ['first', 'again']) await short.send(['one'])
    expect(server.sent).toEqual([SET, 'one', 'one'])
  })

  it('close their connection where it is broken', async () => {
    const { pool, lender, held } = await openHeld()
    held.destroy()
    ;(await connectForStatements(pool, lender.runtime)).release(true)
    await turn()
    expect(pool.totalCount).toBe(0)
  })
})

test('what a commit was not replicated is told until the next statement', async () => {
  const { held, pool, lender } = await openHeld({ replies: { commit: { isUnreplicated: true } } })
  expect(held.isUnreplicated()).toBe(false)
  await held.send(['commit'], 1_000)
  expect(held.isUnreplicated()).toBe(true)
  await held.send(['select'], 1_000)
  expect(held.isUnreplicated()).toBe(false)
  await held.send(['commit'], 1_000)
  held.release()
  const short = await connectForStatements(pool, lender.runtime)
  expect(short.isUnreplicated()).toBe(false)
  await short.query('commit')
  expect(short.isUnreplicated()).toBe(true)
})

describe('the transaction', () => {
  it('is open until a statement of the handler ends it', async () => {
    const { held } = await openHeld()
    expect(held.status()).toBe('open')
    await held.send(['commit', 'begin'], 1_000)
    expect(held.status()).toBe('ended')
  })

  // Red when a statement that is in flight on a lost connection is awaited: the event would never end.
  it('is broken, and not busy any more, when its connection is lost', async () => {
    const { held, backend, pool, server } = await openHeld({ replies: { select: { hangs: true } } })
    const answer = held.send(['select'], 1_000)
    await turn()
    expect(held.isBusy()).toBe(true)
    backend.shutDown('57P01')
    await expect(answer).rejects.toThrow('ended')
    await held.idle()
    expect([held.status(), held.endCode(), held.isBusy()]).toEqual(['broken', '57P01', false])
    await held.cancel()
    expect(server.backends.length).toBe(1)
    held.release()
    await turn()
    expect(pool.totalCount).toBe(0)
  })

  it('has a handle that is refused once it is closed, and nothing once it is revoked', async () => {
    const { held } = await openHeld()
    await held.tx.query('select 1')
    expect(held.hasChangedSettings()).toBe(false)
    await held.tx.query("set role 'x'")
    expect(held.hasChangedSettings()).toBe(true)
    held.close(() => new RetryableError('closed'))
    await expect(held.tx.query('select 1')).rejects.toThrow('closed')
    held.revoke(new RetryableError('revoked'))
    await expect(held.tx.query('select 1')).rejects.toThrow('revoked')
  })
})

describe('the end of a connection', () => {
  // Red when it is lent again inside of the transaction of an event.
  it('closes it where its transaction is still open', async () => {
    const { held, pool } = await openHeld()
    held.release()
    await turn()
    expect(pool.totalCount).toBe(0)
  })

  // Red when it is lent again for the moment until its end comes.
  it('closes it where the server has said that it ends it', async () => {
    const { held, backend, pool } = await openHeld({ replies: { select: { hangs: true } } })
    await held.send(['rollback'], 1_000)
    const answer = held.send(['select'], 1_000)
    await turn()
    backend.shutDown('57P01')
    await expect(answer).rejects.toThrow('ended')
    held.release()
    expect([pool.totalCount, pool.idleCount]).toEqual([0, 0])
  })

  // The slot belongs to all guards on the pool.
  it('gives the slot back although a listener of the pool throws', async () => {
    const { held, pool, releaseSlot } = await openHeld()
    pool.once('release', () => {
      throw new Error('metrics')
    })
    expect(() => held.release()).toThrow('metrics')
    expect(releaseSlot).toHaveBeenCalledTimes(1)
  })
})

describe('a running statement', () => {
  const running = () =>
    openHeld({ replies: { 'select pg_catalog.pg_cancel': {}, select: { hangs: true } } })

  it('is cancelled over another connection, which goes back', async () => {
    const { held, server, pool, clock } = await running()
    held.session.learn(settingsRow())
    server.sent.length = 0
    await held.cancel()
    expect(server.sent).toEqual(['select pg_catalog.pg_cancel_backend(1000)'])
    expect([pool.idleCount, pool.totalCount, clock.timers]).toEqual([1, 2, 0])
    await held.send(['rollback'], 1_000)
    held.release()
    expect(pool.totalCount).toBe(2)
  })

  it('is not cancelled where its process is not known', async () => {
    const { held, server } = await running()
    await held.cancel()
    expect(server.backends.length).toBe(1)
  })

  // Red when a cancel that was not answered is taken for done: it would end a statement of the next event.
  it('has its connection closed where the cancel has not ended', async () => {
    const { held, pool, clock } = await openHeld({
      replies: { 'select pg_catalog.pg_cancel': { hangs: true } },
    })
    held.session.learn(settingsRow())
    const cancelled = vi.fn()
    void held.cancel().then(cancelled)
    await clock.advance(1_999)
    expect(cancelled).not.toHaveBeenCalled()
    await clock.advance(1)
    expect(cancelled).toHaveBeenCalledTimes(1)
    await held.send(['rollback'], 1_000)
    held.release()
    await turn()
    expect(pool.totalCount).toBe(1)
  })
})
