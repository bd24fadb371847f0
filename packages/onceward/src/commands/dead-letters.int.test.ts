import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { answer, cli } from '../fixtures/cli.ts'
import { type Operated, operated } from '../fixtures/operated.ts'

let at: Operated

beforeEach(async () => {
  at = await operated()
})
afterEach(() => at[Symbol.asyncDispose]())

interface Listed {
  readonly letters: readonly {
    readonly id: string
    readonly key: string
    readonly reason: string
    readonly tenant: string | null
  }[]
  readonly counts: readonly { readonly reason: string; readonly count: number }[]
}

const list = (...args: readonly string[]): Promise<Listed> =>
  answer<Listed>(['dead-letters', 'list', ...args], at)

const audit = async (): Promise<readonly unknown[]> =>
  (await at.pool.query('select who, action, why from onceward.audit order by id')).rows

describe('list', () => {
  test('shows what matches, oldest first, and counts all of it', async () => {
    for (const n of [1, 2, 3]) await at.kill(`order-${n}`, `card ${n} declined`)
    await at.sendBytes('bad', Buffer.from('{'))
    const all = await list()
    expect(all.letters.map(({ reason }) => reason)).toEqual([
      ...Array(3).fill('fatal'),
      'invalid-payload',
    ])
    expect(all.letters[0]).toMatchObject({ key: 'order-1', tenant: 'acme' })
    expect((await list('--limit', '2')).counts).toEqual([
      expect.objectContaining({ reason: 'fatal', count: 3 }),
      expect.objectContaining({ reason: 'invalid-payload', count: 1 }),
    ])
    expect((await list('--search', 'CARD 2')).letters).toMatchObject([{ key: 'order-2' }])
    expect((await list('--kind', 'refused')).letters).toHaveLength(1)
    expect((await list('--until', '1h')).letters).toEqual([])
    expect((await list('--consumer', 'nobody')).letters).toEqual([])
  })

  // Red when the text is looked for in the key as it is stored: escaped.
  test('a search finds the key and the error as they are shown', async () => {
    await at.kill('Order "4711"\\a', 'said "no"')
    await at.kill('order-2', 'declined')
    for (const text of ['order "4711"', '"\\A', 'SAID "NO"'])
      expect((await list('--search', text)).letters).toMatchObject([{ key: 'Order "4711"\\a' }])
  })

  // Red when the session of the login decides how many digits of a time are read.
  test('shows times to the millisecond under any extra_float_digits', async () => {
    await at.kill('order-1', 'declined')
    const { rows } = await at.pool.query(
      'select floor(extract(epoch from last_failed_at) * 1000)::text as ms from onceward.failed_events',
    )
    const url = `${at.url}?options=-c%20extra_float_digits%3D-15`
    expect(await answer(['dead-letters', 'list'], { url })).toMatchObject({
      letters: [{ lastFailedAtMs: Number(rows[0]?.ms) }],
    })
  })

  test('a hostile key and error reach no terminal, and JSON gives them back', async () => {
    const key = 'a\u0000\u001b]0;owned\u0007\u202e'
    await at.kill(key, 'no\u001b[2J')
    const { stdout } = await cli(['dead-letters', 'list'], at)
    expect(stdout.replaceAll('\n', '')).not.toMatch(/[\p{Cc}\p{Cf}\p{Surrogate}]/u)
    expect(stdout).toContain('\\u{1b}]0;owned')
    expect((await list()).letters).toMatchObject([{ key }])
  })
})

describe('show', () => {
  test('shows the message with its error and stack', async () => {
    await at.kill('order-1', 'card declined')
    const { letters } = await list()
    const { code, stdout } = await cli(['dead-letters', 'show', letters[0]?.id ?? ''], at)
    expect(code).toBe(0)
    expect(stdout).toMatch(/key +order-1\ntenant +acme\nreason +fatal/)
    expect(stdout).toContain('"fail": "card declined"')
    expect(stdout).toMatch(/RangeError: card declined\n {4}at /)
  })

  test('a body of 10 MB is cut with a note, and raw gives every byte of it', async () => {
    const body = Buffer.alloc(10_485_760, 'é\u001b')
    await at.sendBytes('big', body)
    const [{ id } = { id: '' }] = (await list()).letters
    const shown = await cli(['dead-letters', 'show', id], at)
    expect(shown.stdout.length).toBeLessThan(400_000)
    expect(shown.stdout).toContain('The first 64 KiB of 10 MiB')
    expect(shown.stdout).not.toContain('\u001b')
    const raw = await cli(['dead-letters', 'show', id, '--body', 'raw'], at)
    expect(raw.bytes.equals(body)).toBe(true)
  })

  test('bytes are shown in hex', async () => {
    await at.sendBytes('bytes', Uint8Array.of(0, 255, 27))
    const [{ id } = { id: '' }] = (await list()).letters
    const { stdout } = await cli(['dead-letters', 'show', id], at)
    expect(stdout).toContain('00000000  00 ff 1b')
  })

  test('an id that is not there is exit code 1', async () => {
    const id = '00000000-0000-0000-0000-000000000000'
    const { code, stderr } = await cli(['dead-letters', 'show', id], at)
    expect(code).toBe(1)
    expect(stderr).toContain(`explain --id ${id}`)
  })
})

describe('replay and discard', () => {
  test('without a terminal a filter changes nothing unless --yes is given', async () => {
    await at.kill('order-1', 'no')
    const { code, stderr } = await cli(['dead-letters', 'replay', '--all'], at)
    expect(code).toBe(2)
    expect(stderr).toContain('1 dead letter would be changed. Without a terminal, give --yes')
    expect(await audit()).toEqual([])
  })

  // Red before: exit code 2, because nobody could be asked.
  test.each([
    ['replay', []],
    ['discard', ['--why', 'test data']],
  ])('%s asks nothing about an id', async (verb, why) => {
    await at.kill('order-1', 'no')
    const id = (await list()).letters[0]?.id ?? ''
    const { code, stdout } = await cli(['dead-letters', verb, id, ...why, '--json'], at)
    expect({ code, changed: JSON.parse(stdout) }).toEqual({
      code: 0,
      changed: { done: [id], untouched: [] },
    })
  })

  // A variable of a script that is not set must not select every dead letter.
  test.each([
    ['replay', '--search', ''],
    ['replay', '--consumer', ' '],
    ['discard', '--search', '', '--why', 'x'],
    ['discard', '--all', '--why', ' '],
  ])('an empty text is refused, and nothing is changed: %s %s "%s"', async (...args) => {
    await at.kill('order-1', 'no')
    const { code, stderr } = await cli(['dead-letters', ...args, '--yes'], at)
    expect({ code, stderr }).toMatchObject({
      code: 2,
      stderr: expect.stringContaining('not to be empty'),
    })
    expect((await list()).letters).toMatchObject([{ key: 'order-1' }])
    expect(await audit()).toEqual([])
  })

  test('replay by filter changes what matches, once, and writes it down', async () => {
    await at.kill('order-1', 'no')
    await at.kill('order-2', 'other')
    await at.rest()
    const replay = ['dead-letters', 'replay', '--search', 'order-1', '--by', 'alice', '--yes']
    expect(await cli(replay, at)).toMatchObject({
      code: 0,
      stdout: '1 dead letter will run again.\n',
    })
    expect(await cli(replay, at)).toMatchObject({
      code: 0,
      stdout: 'There are no dead letters that match.\n',
    })
    expect((await list()).letters).toMatchObject([{ key: 'order-2' }])
    expect(await audit()).toEqual([{ who: 'alice', action: 'replay', why: null }])
  })

  test('an id that two operators replay is replayed once, and the other one is told', async () => {
    await at.kill('order-1', 'no')
    await at.rest()
    const [{ id } = { id: '' }] = (await list()).letters
    const replay = (by: string) => cli(['dead-letters', 'replay', id, '--by', by, '--yes'], at)
    const both = await Promise.all([replay('alice'), replay('bob')])
    expect(both.map(({ code }) => code).toSorted()).toEqual([0, 1])
    expect(both.map(({ stdout }) => stdout).join()).toContain('it waits or runs already')
    expect(await audit()).toHaveLength(1)
  })

  test('discard deletes the message and keeps the reason', async () => {
    await at.kill('order-1', 'no')
    const discard = [
      'dead-letters',
      'discard',
      '--consumer',
      'billing',
      '--why',
      'refunded',
      '--yes',
    ]
    expect(await cli(discard, at)).toMatchObject({ code: 0, stdout: '1 dead letter discarded.\n' })
    expect(await audit()).toMatchObject([{ action: 'discard', why: 'refunded' }])
    expect((await list()).letters).toEqual([])
  })
})
