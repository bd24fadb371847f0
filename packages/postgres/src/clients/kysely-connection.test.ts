import { RetryableError } from '@onceward/core'
import { turn } from '@onceward/testing/adapter'
import { CompiledQuery } from 'kysely'
import { describe, expect, it } from 'vitest'
import { errorWith, OPENED, openOnOther, openOnPg } from '../fixtures/kysely.ts'
import type { Reply } from '../fixtures/scripted-server.ts'
import { connectForStatements } from './kysely-connection.ts'

describe('statements of onceward', () => {
  // Kysely returns rows only for a text of one statement.
  it.each([
    [['one'], ['one']],
    [
      ['one', 'two', 'three'],
      ['one; two', 'three'],
    ],
    [['one', 'commit'], ['one; commit']],
    [['one', 'two', 'commit'], ['one; two; commit']],
    [['commit'], ['commit']],
  ])('%j travel as %j', async (texts, sent) => {
    const { held, server } = await openOnPg()
    await held.send(texts, 1_000)
    expect(server.sent).toEqual(sent)
  })

  it('let COMMIT travel alone where only its answer tells what became of the transaction', async () => {
    const { held, sent } = await openOnOther((text) =>
      text === 'commit' ? { rows: [{ command: 'ROLLBACK' }] } : undefined,
    )
    expect(await held.send(['one', 'commit'], 1_000)).toMatchObject({ command: 'ROLLBACK' })
    expect(sent).toEqual(['one', 'commit'])
  })

  it.each<[string, Reply, object]>([
    ['select', { row: { a: '1' } }, { rows: [{ a: '1' }], rowCount: 1, command: undefined }],
    ['update', { tag: 'UPDATE 3' }, { rows: [], rowCount: 3, command: undefined }],
    ['commit', {}, { rowCount: 1, command: 'COMMIT' }],
    ['rollback', {}, { rowCount: 1, command: 'ROLLBACK' }],
    ['select', { row: { command: 'charge' } }, { rowCount: 1, command: undefined }],
    ['savepoint', {}, { rows: [], rowCount: 0, command: undefined }],
  ])('%s has its answer: %j', async (text, reply, answer) => {
    const { held } = await openOnPg({ [text]: reply })
    expect(await held.send([text], 1_000)).toMatchObject(answer)
  })

  it('are counted where the client is pg', async () => {
    const { held } = await openOnPg()
    const before = held.commands() ?? 0
    await held.send(['one', 'two'], 1_000)
    expect((held.commands() ?? 0) - before).toBe(2)
    expect((await openOnOther()).held.commands()).toBeUndefined()
  })
})

describe('a client that takes only one statement in a text', () => {
  const single = (text: string) => (text.includes(';') ? errorWith('42601') : undefined)

  it('gets each statement alone, and no second text of several', async () => {
    const { held, sent, client } = await openOnOther(single)
    for (const _ of ['first', 'again']) await held.send(['one', 'two', 'three'], 1_000)
    expect(sent).toEqual(['one; two', ...Array(2).fill(['one', 'two', 'three']).flat()])
    expect(client.takesSeveral).toBe(false)
  })

  it('has no rows for no statements', async () => {
    const { held, sent, client } = await openOnOther(single)
    client.takesSeveral = false
    expect(await held.send([], 1_000)).toEqual({ rows: [], rowCount: 0, command: undefined })
    expect(sent).toEqual([])
  })

  it('is not known by a text of one statement', async () => {
    const { held, client } = await openOnOther()
    await held.send(['one'], 1_000)
    expect(client.takesSeveral).toBeUndefined()
    await held.send(['one', 'two'], 1_000)
    // Its first text had only one statement too.
    expect(client.takesSeveral).toBeUndefined()
    await held.send(['one', 'two', 'three'], 1_000)
    expect(client.takesSeveral).toBe(true)
  })

  // Red when they are sent once more: what ran before would run twice.
  it('is not taken for one by the error of a later text, nor by another error', async () => {
    for (const bad of ['three', 'one; two']) {
      const code = bad === 'three' ? '42601' : '23505'
      const { held, sent } = await openOnOther((text) =>
        text === bad ? errorWith(code) : undefined,
      )
      await expect(held.send(['one', 'two', 'three'], 1_000)).rejects.toThrow(code)
      expect(sent).toEqual(['one; two', 'three'].slice(0, bad === 'three' ? 2 : 1))
    }
    const { held, client } = await openOnOther(single)
    client.takesSeveral = true
    await expect(held.send(['one', 'two', 'three'], 1_000)).rejects.toThrow('42601')
  })
})

describe('the transaction', () => {
  it('is open until a statement of the handler ends it', async () => {
    const { held } = await openOnPg()
    expect([held.status(), held.endCode()]).toEqual(['open', undefined])
    await held.send(['commit', 'begin', 'select'], 1_000)
    expect(held.status()).toBe('ended')
  })

  it('is broken when its connection is lost, and ends no process', async () => {
    const { held, backend, pool } = await openOnPg()
    backend.shutDown('57P01')
    await turn()
    expect([held.status(), held.endCode()]).toEqual(['broken', '57P01'])
    held.destroy()
    await turn()
    expect(pool.totalCount).toBe(0)
  })

  it('is as its statements show, where the client is another', async () => {
    const { held } = await openOnOther((text) => (text === 'bad' ? errorWith('23505') : undefined))
    expect(held.opened(OPENED)).toMatchObject({ lockTimeout: '7s' })
    expect([held.status(), held.endCode(), held.isUtf8()]).toEqual(['open', undefined, true])
    await expect(held.send(['bad'], 1_000)).rejects.toThrow('23505')
    expect([held.status(), held.isUnreplicated()]).toEqual(['failed', false])
  })

  it('has a handle that is refused once it is closed, and nothing once it is revoked', async () => {
    const { held } = await openOnPg()
    const ask = () => held.tx.executeQuery(CompiledQuery.raw('select 1'))
    await ask()
    expect(held.hasChangedSettings()).toBe(false)
    await held.tx.executeQuery(CompiledQuery.raw("set role 'x'"))
    expect(held.hasChangedSettings()).toBe(true)
    held.close(() => new RetryableError('closed'))
    await expect(ask()).rejects.toThrow('closed')
    held.revoke(new RetryableError('revoked'))
    await expect(ask()).rejects.toThrow('revoked')
  })

  it('tells that a commit was not replicated, until the next statement', async () => {
    const { held, client } = await openOnPg({ commit: { isUnreplicated: true } })
    expect(held.isUnreplicated()).toBe(false)
    await held.send(['commit'], 1_000)
    expect(held.isUnreplicated()).toBe(true)
    await held.send(['select'], 1_000)
    expect(held.isUnreplicated()).toBe(false)
    await held.send(['commit'], 1_000)
    held.release()
    await turn()
    const short = await connectForStatements(client)
    expect(short.isUnreplicated()).toBe(false)
    await short.query('commit')
    expect(short.isUnreplicated()).toBe(true)
  })
})
