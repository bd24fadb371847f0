import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { cp, mkdtemp, readFile, rm, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import { database } from '@onceward/testing'
import pg from 'pg'
import { afterAll, afterEach, beforeAll, expect, test } from 'vitest'
import { SCHEMA_VERSION } from './inbox/schema-version.ts'
import { MIGRATIONS } from './sql/index.ts'

const SOURCE = fileURLToPath(new URL('.', import.meta.url))
const MODULES = fileURLToPath(new URL('../../../node_modules', import.meta.url))
const NEXT = SCHEMA_VERSION + 1
const SHARED = 200

let folder: string
const children: ChildProcess[] = []

// Where one fails, the others would wait for ever.
afterEach(() => {
  for (const child of children.splice(0)) child.kill('SIGKILL')
})

/** The code of the next release: this one, with one migration more that this one can use. */
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'onceward-next-'))
  await cp(SOURCE, join(folder, 'src'), { recursive: true })
  await symlink(MODULES, join(folder, 'node_modules'))
  await writeFile(join(folder, 'package.json'), '{ "type": "module" }')
  await change('inbox/schema-version.ts', `VERSION = ${SCHEMA_VERSION}`, `VERSION = ${NEXT}`)
  const sql =
    'alter table :"schema".processed_events add column note text; alter table :"schema".failed_events add column note text'
  const migration = { version: NEXT, name: 'next.sql', readableFrom: SCHEMA_VERSION, sql }
  await change(
    'sql/index.ts',
    'sql: kafkaOffsets },',
    `sql: kafkaOffsets }, ${JSON.stringify(migration)},`,
  )
})
afterAll(() => rm(folder, { recursive: true }))

async function change(path: string, text: string, to: string): Promise<void> {
  const file = join(folder, 'src', path)
  const before = await readFile(file, 'utf8')
  if (!before.includes(text)) throw new Error(`${path} does not have ${text}`)
  await writeFile(
    file,
    before.replace(text, () => to),
  )
}

interface Pod {
  /** What its `migrate` did. */
  readonly migrated: unknown
  /** Lets it go on to the shared events. Resolves with the number of its own when it has ended. */
  goOn(): Promise<number>
}

/** A process that has settled events and settles more. */
async function start(release: 'old' | 'new', url: string): Promise<Pod> {
  const source = release === 'old' ? SOURCE : join(folder, 'src')
  const worker = join(source, 'fixtures/release-worker.ts')
  const child = spawn(
    process.execPath,
    ['--conditions=@onceward/source', worker, url, String(SHARED)],
    { stdio: ['pipe', 'pipe', 'inherit'] },
  )
  children.push(child)
  const exit = once(child, 'exit')
  const lines = createInterface(child.stdout)[Symbol.asyncIterator]()
  const { value: migrated } = await lines.next()
  return {
    migrated: JSON.parse(migrated as string),
    goOn: async () => {
      child.stdin.write('go on\n')
      const { value: own } = await lines.next()
      expect(await exit).toEqual([0, null])
      return Number(own)
    },
  }
}

const CREATED = { applied: MIGRATIONS.map(({ name }) => name), version: SCHEMA_VERSION }
const ADDED = { applied: ['next.sql'], version: NEXT }
const NOTHING = { applied: [], version: NEXT }

// Red when old code refuses newer tables, or when new code writes what the old one cannot read.
test.each([
  {
    what: 'deployment: new pods migrate under load, and an old one restarts',
    pods: ['old', 'new', 'old'] as const,
    migrated: [CREATED, ADDED, NOTHING],
  },
  {
    what: 'way back: old pods start beside new ones',
    pods: ['new', 'old', 'old'] as const,
    migrated: [
      { ...CREATED, applied: [...CREATED.applied, 'next.sql'], version: NEXT },
      NOTHING,
      NOTHING,
    ],
  },
])(
  'no event is lost or doubled while two releases run side by side: $what',
  async (scenario) => {
    const { url } = await database()
    const pool = new pg.Pool({ connectionString: url, max: 1 })
    // No key is unique here, so a second effect would be seen.
    await pool.query('create table effects (key text not null)')
    const pods: Pod[] = []
    for (const release of scenario.pods) pods.push(await start(release, url))
    expect(pods.map(({ migrated }) => migrated)).toEqual(scenario.migrated)
    const own = await Promise.all(pods.map((pod) => pod.goOn()))
    const { rows } = await pool.query(
      `select count(*)::int as effects, count(distinct key)::int as events,
       (select count(*)::int from onceward.failed_events) as troubled from effects`,
    )
    const events = SHARED + own.reduce((sum, count) => sum + count, 0)
    expect(rows).toEqual([{ effects: events, events, troubled: 0 }])
    await pool.end()
  },
  60_000,
)
