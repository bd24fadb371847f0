import { mkdtemp, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import type { Seal } from '@onceward/core'
import { sendWith } from '@onceward/postgres/outbox'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { createApi } from '../console/api.ts'
import { openDatabase } from '../data/database.ts'
import { loadSeal } from '../data/seal.ts'
import { answer, cli, type Ended } from '../fixtures/cli.ts'
import { type Operated, operated } from '../fixtures/operated.ts'

const SECRET = 'iban-DE02120300000000202051'
let at: Operated
let folder: string
let letter: string

/** Each key is a module of its own, as an operator has it. */
async function keyFile(name: string, key: number): Promise<string> {
  const file = join(folder, `${name}.mjs`)
  const hide = `const hide = (bytes) => bytes.map((byte) => byte ^ ${key})`
  const open = `export const open = async (bytes) => {
    if (bytes[0] !== ${key}) throw new Error('no key ' + bytes[0])
    return hide(bytes.subarray(1))
  }`
  const seal = `export const seal = (bytes) => Uint8Array.of(${key}, ...hide(bytes))`
  await writeFile(file, [hide, open, seal].join('\n'))
  return file
}

let files: { readonly right: string; readonly wrong: string }
let seal: Seal

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'onceward-'))
  files = { right: await keyFile('right', 7), wrong: await keyFile('wrong', 8) }
  seal = (await import(pathToFileURL(files.right).href)) as Seal
  at = await operated(undefined, seal)
  await at.kill('order-1', 'declined')
  await at.send('dead', { fail: 'declined', note: SECRET })
  await at.send('done', { note: SECRET })
  const { rows } = await at.pool.query(
    'select event_id as id from onceward.failed_events order by first_failed_at desc',
  )
  letter = rows[0].id
  const client = await at.pool.connect()
  await client.query('begin')
  const headers = { 'x-note': SECRET }
  await sendWith(client, [{ to: 'bank', id: 'm-1', payload: { note: SECRET }, headers }], { seal })
  await client.query('commit')
  client.release()
})
afterAll(() => at[Symbol.asyncDispose]())

const SHOWN: readonly (readonly [string, () => readonly string[]])[] = [
  ['dead-letters show', () => ['dead-letters', 'show', letter]],
  ['outbox show', () => ['outbox', 'show', 'm-1']],
]

describe.each(SHOWN)('%s', (_, args) => {
  const show = (...more: readonly string[]): Promise<Ended> => cli([...args(), ...more], at)

  test('of a sealed message shows its size, and the payload only with --seal', async () => {
    const without = await show()
    expect([without.code, without.stderr]).toEqual([0, ''])
    expect(without.stdout).toMatch(
      /The message is sealed, \d+ bytes\. To open it: --seal \.\/seal\.js/,
    )
    expect(without.stdout).not.toContain(SECRET)
    const wrong = await show('--seal', files.wrong)
    expect(wrong.stdout).toMatch(
      /The message is sealed, \d+ bytes\. The stored .* could not be opened.* no key 7/,
    )
    const opened = await show('--seal', files.right)
    expect([opened.code, opened.stderr]).toEqual([0, ''])
    expect(opened.stdout).toMatch(new RegExp(`^.*"note": ?"${SECRET}"`, 'm'))
    expect(opened.stdout).not.toContain('sealed')
    const cut = await show('--seal', files.right, '--max-bytes', '5', '--json')
    expect(cut.stdout).toMatch(/"note": ?"The first 5 bytes of \d+ bytes/)
    expect((await show('--json')).stdout).toMatch(/"form": ?"sealed"/)
  })

  test('refuses a module that is no seal', async () => {
    const none = join(folder, 'none.mjs')
    await writeFile(none, 'export const seal = 1')
    for (const [file, why] of [
      [none, /has no `seal` and `open`/],
      [join(folder, 'nothing.mjs'), /cannot be loaded/],
    ] as const) {
      const { code, stderr, stdout } = await show('--seal', file)
      expect([code, stdout]).toEqual([2, ''])
      expect(stderr).toMatch(why)
    }
  })
})

test('--body raw writes the payload, and never what is sealed', async () => {
  const raw = ['dead-letters', 'show', letter, '--body', 'raw']
  const without = await cli(raw, at)
  expect([without.code, without.stdout]).toEqual([1, ''])
  expect(without.stderr).toMatch(/The message is sealed/)
  const { stdout } = await cli([...raw, '--seal', files.right], at)
  expect(JSON.parse(stdout)).toEqual({ fail: 'declined', note: SECRET })
})

test('explain does not show a sealed result', async () => {
  const { stdout } = await cli(['explain', 'done', '--consumer', 'billing', '--tenant', 'acme'], at)
  expect(stdout).toMatch(/result: sealed$/m)
})

test('the console shows what it has the seal for', async () => {
  await using database = openDatabase(at.url, 'onceward')
  const ask = async (given: Seal | undefined, name: string, query: string): Promise<unknown> => {
    const api = createApi({
      ...{ database, allowsChanges: false, by: undefined, brokers: [], seal: given },
      ...{ redis: undefined, redisNamespace: undefined, ending: new AbortController().signal },
    })
    return api.answer({ name, query: new URLSearchParams(query) })
  }
  const { rows } = await at.pool.query('select position::text from onceward.outbox_messages')
  const right = await loadSeal(files.right)
  for (const [name, query] of [
    ['letter', `id=${letter}`],
    ['message', `position=${rows[0].position}`],
  ] as const) {
    expect(await ask(undefined, name, query)).toMatchObject({ shown: { form: 'sealed', text: '' } })
    const shown = { form: 'json', text: expect.stringContaining(SECRET) }
    expect(await ask(right, name, query)).toMatchObject({ shown })
  }
})

test('a dead message of the outbox that is sealed can be replayed and discarded without its key', async () => {
  await at.pool.query("update onceward.outbox_messages set state = 'x', failed_at = now()")
  const replayed = await answer<{ readonly done: readonly string[] }>(
    ['outbox', 'replay', 'm-1'],
    at,
  )
  expect(JSON.stringify(replayed)).toContain('m-1')
  const { rows } = await at.pool.query('select state::text from onceward.outbox_messages')
  expect(rows).toEqual([{ state: 'q' }])
})
