import { turn } from '@onceward/testing/adapter'
import { describe, expect, it, vi } from 'vitest'
import {
  errorWith,
  kyselyOnOther,
  kyselyOnPg,
  OPENED,
  openOnOther,
  openOnPg,
} from '../fixtures/kysely.ts'
import { connectForStatements } from './kysely-connection.ts'

describe('the end of a connection', () => {
  // Red when it is lent meanwhile: its next user would get the error of the closed connection.
  it('does not give a connection back that is being closed', async () => {
    const { held, pool, releaseSlot, backend } = await openOnPg()
    held.destroy()
    expect([backend.destroyed, pool.idleCount, releaseSlot.mock.calls]).toEqual([true, 0, []])
    await turn()
    expect([pool.totalCount, releaseSlot.mock.calls.length]).toEqual([0, 1])
  })

  // Red when it is lent again inside of the transaction of an event.
  it('on another client comes after a rollback, which follows the running statement', async () => {
    const running = Promise.withResolvers<never>()
    const { held, sent, lent, releaseSlot } = await openOnOther((text) =>
      text === 'select' ? running.promise : undefined,
    )
    held.send(['select'], 1_000).catch(() => undefined)
    held.destroy()
    await turn()
    expect([sent, lent.released, releaseSlot.mock.calls]).toEqual([['select'], 0, []])
    running.reject(errorWith('57014'))
    await turn()
    expect([sent, lent.released]).toEqual([['select', 'rollback'], 1])
    expect(releaseSlot).toHaveBeenCalledTimes(1)
  })

  it('on another client comes also where the rollback fails', async () => {
    const { held, lent, releaseSlot } = await openOnOther(() => errorWith('57P01'))
    held.destroy()
    await turn()
    expect([lent.released, releaseSlot.mock.calls.length]).toEqual([1, 1])
  })

  // Red when a listener stays: the next loss while other code uses the connection would be kept from that code.
  it('leaves the losses of a connection to who has it next', async () => {
    const { held, pool, backend } = await openOnPg()
    await held.send(['rollback'], 1_000)
    held.release()
    await turn()
    const { connection } = await pool.connect()
    expect(() => connection.emit('error', new Error('read ECONNRESET'))).toThrow('ECONNRESET')
    expect(backend.destroyed).toBe(false)
  })
})

const CANCEL = 'select pg_catalog.pg_cancel_backend(1000)'

describe('a running statement', () => {
  it('is cancelled over another connection, which goes back', async () => {
    const { held, server, pool, clock } = await openOnPg()
    await held.cancel()
    await turn()
    expect(server.sent).toEqual(['', CANCEL])
    expect([pool.idleCount, pool.totalCount, clock.timers]).toEqual([1, 2, 0])
    await held.send(['rollback'], 1_000)
    held.release()
    await turn()
    expect(pool.totalCount).toBe(2)
  })

  it('is not cancelled where its process is not known, nor over the only connection', async () => {
    const one = await openOnOther()
    await one.held.cancel()
    const single = await openOnOther(undefined, { isSingle: true })
    single.held.opened(OPENED)
    await single.held.cancel()
    expect([one.sent, single.sent]).toEqual([[], []])
    one.held.opened(OPENED)
    await one.held.cancel()
    expect(one.sent).toEqual([CANCEL])
  })

  // Red when a cancel that was not answered is taken for done: it would end a statement of the next event.
  it('has its connection closed where the cancel has not ended', async () => {
    const { held, pool, clock } = await openOnPg({ [CANCEL]: { hangs: true } })
    const cancelled = vi.fn()
    void held.cancel().then(cancelled)
    await clock.advance(1_999)
    expect(cancelled).not.toHaveBeenCalled()
    await clock.advance(1)
    expect(cancelled).toHaveBeenCalledTimes(1)
    // The connection of the cancel is closed too: its statement runs still.
    await turn()
    expect(pool.totalCount).toBe(1)
    await held.send(['rollback'], 1_000)
    held.release()
    await turn()
    expect(pool.totalCount).toBe(0)
  })
})

describe('a connection for short statements', () => {
  it('answers, and goes back', async () => {
    const { client, pool, server } = kyselyOnPg({ select: { row: { a: '1' } } })
    const short = await connectForStatements(client)
    server.sent.length = 0
    expect(await short.query('select $1', ['a'])).toMatchObject({ rows: [{ a: '1' }] })
    expect(await short.query('select')).toMatchObject({ rows: [{ a: '1' }] })
    expect(await short.send(['one', 'select'])).toMatchObject({ rows: [{ a: '1' }] })
    expect(server.sent.slice(0, 2)).toEqual(['select $1', 'select'])
    const other = kyselyOnOther()
    const asked = vi.spyOn(other.connection, 'executeQuery')
    await (await connectForStatements(other.client)).query('select')
    await (await connectForStatements(other.client)).query('select $1', ['a'])
    expect(asked.mock.calls.map(([query]) => query.parameters)).toEqual([[], ['a']])
    short.release(false)
    await turn()
    expect([pool.idleCount, pool.totalCount]).toEqual([1, 1])
  })

  it('is closed where it is broken, and goes back only then', async () => {
    const { client, pool } = kyselyOnPg()
    const short = await connectForStatements(client)
    short.release(true)
    expect(pool.idleCount).toBe(0)
    await turn()
    expect(pool.totalCount).toBe(0)
  })

  // Red when it is lent while a statement runs on it: the next one would wait behind it.
  it('that cannot be closed goes back when its statement has ended', async () => {
    const running = Promise.withResolvers<never>()
    const { client, lent } = kyselyOnOther(() => running.promise)
    const short = await connectForStatements(client)
    const asked = short.query('select').catch((error: Error) => error.message)
    short.release(true)
    await turn()
    expect(lent.released).toBe(0)
    running.reject(errorWith('57014'))
    expect(await asked).toContain('57014')
    await turn()
    expect(lent.released).toBe(1)
    expect(short.isUnreplicated()).toBe(false)
  })

  // Red when the texts of another encoding are stored: what an event holds would be read as other characters.
  it('is told to take UTF-8 where other code has told it another encoding', async () => {
    const { client, server } = kyselyOnPg()
    const short = await connectForStatements(client)
    server.sent.length = 0
    for (const _ of ['first', 'again']) await short.send(['one', 'two'])
    // No statement has been sent on a new connection yet.
    const SET = "set client_encoding = 'UTF8'"
    expect(server.sent).toEqual([SET, 'one', 'two', 'one', 'two'])
    server.backends[0]?.tell('client_encoding', 'LATIN1')
    await turn()
    server.sent.length = 0
    for (const _ of ['first', 'again']) await short.send(['one'])
    expect(server.sent).toEqual([SET, 'one', 'one'])
    const other = kyselyOnOther()
    await (await connectForStatements(other.client)).send(['one'])
    expect(other.sent).toEqual(['one'])
  })

  // Red when the process ends: Kysely does not listen to its clients.
  it('may be lost between two statements', async () => {
    const { client, server, pool } = kyselyOnPg()
    const short = await connectForStatements(client)
    server.backends[0]?.shutDown('57P01')
    await turn()
    await expect(short.query('select')).rejects.toThrow()
    short.release(true)
    await turn()
    expect(pool.totalCount).toBe(0)
  })
})
