import { spawn } from 'node:child_process'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { fileURLToPath } from 'node:url'
import { migrate } from '@onceward/postgres'
import { Pool } from 'pg'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { prepareDatabase } from '../../packages/onceward/src/data/proof-database.ts'
import { consumerFile, proveOn, SharedServers } from './proving.ts'

const PROGRAM = fileURLToPath(new URL('../../packages/onceward/src/index.ts', import.meta.url))
const SAMPLE = fileURLToPath(new URL('../../docs/samples/prove.ts', import.meta.url))

interface Ended {
  readonly code: number | null
  readonly stdout: string
  readonly stderr: string
}

async function prove(args: readonly string[], env: Record<string, string> = {}): Promise<Ended> {
  const { DATABASE_URL: _, ...inherited } = process.env
  const child = spawn(
    process.execPath,
    ['--conditions=@onceward/source', PROGRAM, 'prove', ...args],
    { env: { ...inherited, ...env }, stdio: ['ignore', 'pipe', 'pipe'] },
  )
  const ended = new Promise<number | null>((resolve) => child.once('close', resolve))
  const [stdout, stderr] = await Promise.all([text(child.stdout), text(child.stderr)])
  return { code: await ended, stdout, stderr }
}

test.each([
  ['more kills than events', ['--kills', '60', '--events', '50'], '--kills to be at most --events'],
  ['no such servers', ['--servers', 'mine'], '`embedded` or `env`'],
  ['no such broker', ['--broker', 'mqtt'], 'Expected --broker to be sqs, kafka'],
  ['no database', ['--servers', 'env'], 'Which database?'],
  ['a database without --servers env', ['--url', 'postgres://a/b'], 'are for `--servers env`'],
  [
    'no address of a broker',
    ['--servers', 'env', '--broker', 'kafka', '--url', 'postgres://a/b'],
    'set KAFKA_BROKERS',
  ],
])('prove refuses a command line: %s', { tags: 'nightly' }, async (_title, args, why) => {
  const { code, stderr } = await prove([SAMPLE, ...args], { KAFKA_BROKERS: '', KAFKA_BROKER: '' })
  expect(stderr).toContain(why)
  expect(code).toBe(2)
})

// Red when prove proves nothing of the file that the documents show.
test('prove proves the sample of the documents on embedded servers', {
  tags: 'nightly',
}, async () => {
  const args = ['--events', '40', '--kills', '7', '--seed', '7', '--json']
  const { code, stderr, stdout } = await prove([SAMPLE, ...args])
  expect(code, stderr).toBe(0)
  const lines = stdout.trimEnd().split('\n')
  expect(lines).toHaveLength(1)
  expect(JSON.parse(lines[0] ?? '')).toMatchObject({
    ...{ broker: 'sqs', seed: 7, events: 40, effects: 40, lost: 0, doubled: 0, left: 0 },
  })
})

describe('a file that cannot be proved', () => {
  const shared = new SharedServers('sqs')
  let folder: string
  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), 'onceward-prove-test-'))
  })
  afterAll(async () => {
    await rm(folder, { recursive: true })
    await shared[Symbol.asyncDispose]()
  })

  const rest = 'export const event = (n) => ({ n }); export const count = async () => ({})'
  const endless = 'new Promise(() => setInterval(() => undefined, 1_000))'
  const drained =
    '({ drain: async () => undefined, health: () => ({ inFlight: 0 }), stopped: new Promise(() => undefined) })'

  test.each([
    ['it throws', "throw new Error('no config')", 'no config'],
    [
      'it exports too little',
      'export const start = () => undefined',
      'does not export event, count',
    ],
    [
      'start() throws',
      `export const start = async () => { throw new Error('no queue') }; ${rest}`,
      'no queue',
    ],
    [
      'start() never resolves',
      `export const start = () => ${endless}; ${rest}`,
      'start() has not resolved after 10 s',
    ],
    [
      'start() resolves with nothing',
      `export const start = async () => undefined; ${rest}`,
      'no Consumption',
    ],
    [
      'its worker ends at once',
      `export const start = async () => process.exit(3); ${rest}`,
      'ended by itself (3) before start()',
    ],
    ['it imports what is not there', `import './nowhere.js'; ${rest}`, 'Install what it imports'],
    [
      'event() returns nothing',
      `export const start = async () => ${drained}; export const event = () => undefined; export const count = async () => ({})`,
      'event(1) returned no JSON value',
    ],
    [
      'count() hangs',
      `export const start = async () => ${drained}; export const event = (n) => ({ n }); export const count = () => ${endless}`,
      'count() has not ended after 10 s',
    ],
    [
      'count() answers a list',
      `export const start = async () => ${drained}; export const event = (n) => ({ n }); export const count = async () => []`,
      'must resolve with { [event]: number of effects }',
    ],
    [
      'count() finds effects before',
      `export const start = async () => ${drained}; export const event = (n) => ({ n }); export const count = async () => ({ 1: 1 })`,
      'before anything was sent',
    ],
  ])('%s', { tags: 'nightly' }, async (title, source, why) => {
    const file = join(folder, `${title.replaceAll(/\W+/g, '-')}.mjs`)
    await writeFile(file, source)
    const servers = await shared.given()
    const limits = why.includes('after 10 s') ? { answerMs: 10_000 } : {}
    const proving = proveOn(servers, { file, events: 3, patienceMs: 1_000, ...limits })
    await expect(proving).rejects.toThrow(why)
  })

  test('messages that a consumer does not take are told with what it has written', {
    tags: 'nightly',
  }, async () => {
    const file = join(folder, 'idle.mjs')
    const start = `export const start = async () => { console.log('paused: no key'); return ${drained} }`
    await writeFile(file, `${start}; ${rest}`)
    const servers = await shared.given()
    const { left, remarks } = await proveOn(servers, { file, events: 3, stuckMs: 1_000 })
    expect(left).toBeGreaterThan(0)
    expect(remarks.join('\n')).toContain('a worker wrote last:\n    paused: no key')
  })

  test('a consumer without its tables is refused with the error of count()', async () => {
    const file = join(folder, 'no-tables.mjs')
    await writeFile(
      file,
      `export { start, event, count } from ${JSON.stringify(consumerFile('right-pg'))}`,
    )
    const servers = await shared.given()
    const proving = proveOn(servers, { file, events: 3, patienceMs: 1_000 })
    await expect(proving).rejects.toThrow('relation "charges" does not exist')
  })
})

describe('a database of the user', () => {
  const shared = new SharedServers('sqs')
  const pool = (url: string): Pool => new Pool({ connectionString: url, max: 1 })
  const file = consumerFile('right-pg')
  afterAll(() => shared[Symbol.asyncDispose]())

  test('is left as it was', { tags: 'nightly' }, async () => {
    const servers = await shared.given()
    const asking = pool(servers.databaseUrl)
    const tables = async (): Promise<unknown> =>
      (await asking.query("select count(*)::int from pg_tables where schemaname !~ '^(pg_|info)'"))
        .rows
    const before = await tables()
    const { effects } = await proveOn(servers, { file, events: 5 })
    expect(effects).toBe(5)
    expect(await tables()).toEqual(before)
    await asking.end()
  })

  // Red when prove deletes rows of others, or leaves its own.
  test('in which others have events is refused unless told, and keeps them', async () => {
    const servers = await shared.given()
    const asking = pool(servers.databaseUrl)
    await migrate(asking)
    const other = `insert into onceward.consumers (name, dedup_window_ms, fingerprint_rule)
      values ('other', 1000000000, 1) returning id`
    const [{ id }] = (await asking.query(other)).rows
    const event = `insert into onceward.processed_events (event_id, fingerprint, consumer_id)
      values (gen_random_uuid(), 1, $1)`
    await asking.query(event, [id])
    await expect(proveOn(servers, { file, events: 5 })).rejects.toThrow('holds work of others')
    const prepare = (url: string) => prepareDatabase({ url, schema: 'onceward', allowUsed: true })
    expect(await proveOn(servers, { file, events: 5, prepare })).toMatchObject({ effects: 5 })
    const left = 'select name, consumer_id from onceward.consumers, onceward.processed_events'
    expect((await asking.query(left)).rows).toEqual([{ name: 'other', consumer_id: id }])
    await asking.end()
  })
})
