import { describe, expect, test } from 'vitest'
import { commanded } from '../fixtures/commanded.ts'
import { type Answers, CURRENT } from '../fixtures/scripted-database.ts'
import { listCommand, showCommand } from './dead-letters-read.ts'

const ID = '0c5d9f52-6f3c-9b3a-2f86-8f5b7a5e6f10'
const MOST_BYTES = 134_217_728
const base64 = (text: string): string => Buffer.from(text).toString('base64')
const SUMMARY = {
  ...{ id: ID, kind: 'event', consumer: 'billing', reason: 'fatal', tenant: null, attempts: 2 },
  ...{ key: String.raw`o\n1`, firstFailedAtMs: 0, lastFailedAtMs: 0, published: false },
  ...{ isRequeued: false, bodyBytes: 7, isOmitted: false, error: 'declined' },
}
const COUNT = { consumer: 'billing', reason: 'fatal', count: 1, oldestMs: 0 }

describe('list', () => {
  const listed: Answers = [['select * from', [SUMMARY]], ['group by', [COUNT]], ...CURRENT]

  test('shows the oldest 50 with their keys as they were, and counts all', async () => {
    const { asked, code, stdout } = await commanded(listCommand, [], listed)
    expect(code).toBe(0)
    expect(stdout).toContain(String.raw`o\n1`)
    expect(stdout).toContain('1 dead letter:\n  billing  fatal  1\n')
    expect(asked.map(({ values }) => values.at(-1))).toContain(50)
    const { stdout: json } = await commanded(listCommand, ['--json'], listed)
    expect(JSON.parse(json)).toEqual({ letters: [{ ...SUMMARY, key: 'o\n1' }], counts: [COUNT] })
  })

  test('shows what the filter selects, up to its limit', async () => {
    const args = ['--consumer', 'billing', '--limit', '7']
    const { asked } = await commanded(listCommand, args, listed)
    const values = asked.map((each) => each.values).filter(([consumer]) => consumer === 'billing')
    expect(values.map((each) => each.slice(7))).toEqual([[7], []])
  })
})

describe('show', () => {
  const ROW = {
    ...{ ...SUMMARY, source: '{"broker":"sqs"}', properties: base64('{}'), bodyParts: 0 },
    ...{ headers: base64('{}'), body: base64('{"a":1}') },
  }
  const there: Answers = [['octet_length', [ROW]], ...CURRENT]
  const shown = (args: readonly string[], answers = there) =>
    commanded(showCommand, [ID, ...args], answers)

  test('shows the message and the error', async () => {
    const { asked, code, stdout } = await shown([])
    expect(code).toBe(0)
    expect(stdout).toContain('{\n  "a": 1\n}')
    expect(stdout).toContain('declined')
    expect(asked.find(({ sql }) => sql.includes('octet_length'))?.values).toEqual([ID, 65_536])
  })

  test('as JSON has the body in its form, and its bytes', async () => {
    const letter = JSON.parse((await shown(['--json', '--body', 'text'])).stdout)
    expect(letter).toMatchObject({
      ...{ id: ID, key: 'o\n1', source: { broker: 'sqs' } },
      body: { form: 'text', text: '{"a":1}', base64: base64('{"a":1}') },
    })
  })

  test('raw is the bytes alone, all of them', async () => {
    const bytes = Buffer.from([0, 255, 10, 27])
    const row = { ...ROW, bodyBytes: 4, body: bytes.toString('base64') }
    const args = ['--body', 'raw', '--max-bytes', '1']
    const ran = await shown(args, [['octet_length', [row]], ...CURRENT])
    expect(ran).toMatchObject({ code: 0, bytes })
    const { values } = ran.asked.find(({ sql }) => sql.includes('octet_length')) ?? {}
    expect(values).toEqual([ID, MOST_BYTES])
  })

  test.each([
    ['0', 0],
    ['9', 9],
    ['999999999', MOST_BYTES],
  ])('at most %s bytes asks for %i', async (most, bytes) => {
    const { asked } = await shown(['--max-bytes', most])
    expect(asked.find(({ sql }) => sql.includes('octet_length'))?.values).toEqual([ID, bytes])
  })

  test('one that is not there is a no, with what to do', async () => {
    const { failure, stdout } = await shown([], CURRENT)
    const message = expect.stringContaining(`run \`npx onceward explain --id ${ID}\``)
    expect(failure).toMatchObject({ exitCode: 1, message })
    expect(stdout).toBe('')
  })

  test.each([
    [[ID, '--json', '--body', 'raw'], '--json or --body raw, not both'],
    [['x'], 'Expected the id of a dead letter'],
    [[ID, '--max-bytes', 'all'], 'Expected --max-bytes to be a whole number'],
  ])('%j is refused', async (args, text) => {
    const { failure } = await commanded(showCommand, args, there)
    expect(failure).toMatchObject({ exitCode: 2, message: expect.stringContaining(text) })
  })

  test('a form of the body is one of the choices', async () => {
    expect((await shown(['--body', 'yaml'])).failure).toMatchObject({
      code: 'commander.invalidArgument',
    })
  })
})
