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
const ADDING =
  'alter table :"schema".processed_events add column note text; alter table :"schema".failed_events add column note text'

/** The tables before the outbox. */
const BEFORE = 3

const folders: string[] = []
const children: ChildProcess[] = []

// Where one fails, the others would wait for ever.
afterEach(() => {
  for (const child of children.splice(0)) child.kill('SIGKILL')
})

type Change = readonly [path: string, text: string, to: string]

/** Pauses and the count of deferrals are younger than the outbox. */
const WITHOUT_PAUSES: readonly Change[] = [
  ['inbox/pauses.ts', 'read: async () => {', 'read: async () => { return undefined'],
  ['statements/attempts.ts', 'no_verdict = 0, defers = excluded.defers,', 'no_verdict = 0,'],
  ['statements/verdicts.ts', 'defers = f.defers + (', 'no_verdict = f.no_verdict + ('],
  ['statements/verdicts.ts', 'attempt, defers, next_try', 'attempt, no_verdict, next_try'],
  ['statements/verdicts.ts', ' and f.defers = 0', ''],
  ['statements/verdicts.ts', "isSpent = '(f.defers >=", "isSpent = 'false' // '(f.defers >="],
]

/** What other releases change in the files of this one. */
const CHANGES: Readonly<Record<Exclude<Release, 'old'>, readonly Change[]>> = {
  new: [
    ['inbox/schema-version.ts', `VERSION = ${SCHEMA_VERSION}`, `VERSION = ${NEXT}`],
    [
      'sql/index.ts',
      'sql: removedConsumers },',
      `sql: removedConsumers }, ${JSON.stringify({ version: NEXT, name: 'next.sql', readableFrom: SCHEMA_VERSION, sql: ADDING })},`,
    ],
  ],
  'without outbox': [
    ['inbox/schema-version.ts', `VERSION = ${SCHEMA_VERSION}`, `VERSION = ${BEFORE}`],
    [
      'sql/index.ts',
      'sql: removedConsumers },\n]',
      `sql: removedConsumers },\n].slice(0, ${BEFORE})`,
    ],
    ...WITHOUT_PAUSES,
    ['statements/removal.ts', '`coalesce(', '`false` // '],
  ],
}

type Release = 'old' | 'new' | 'without outbox'

const sources: Partial<Record<Release, string>> = { old: SOURCE }

/** The code of the next release: this one, with one migration more that this one can use. And that of an earlier one. */
beforeAll(async () => {
  for (const [release, changes] of Object.entries(CHANGES)) {
    const folder = await mkdtemp(join(tmpdir(), 'onceward-release-'))
    folders.push(folder)
    sources[release as Release] = join(folder, 'src')
    await cp(SOURCE, join(folder, 'src'), { recursive: true })
    await symlink(MODULES, join(folder, 'node_modules'))
    await writeFile(join(folder, 'package.json'), '{ "type": "module" }')
    for (const [path, text, to] of changes) await change(join(folder, 'src', path), text, to)
  }
})
afterAll(() => Promise.all(folders.map((folder) => rm(folder, { recursive: true }))))

async function change(file: string, text: string, to: string): Promise<void> {
  const before = await readFile(file, 'utf8')
  if (!before.includes(text)) throw new Error(`${file} does not have ${text}`)
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
async function start(release: Release, url: string): Promise<Pod> {
  const worker = join(sources[release] ?? '', 'fixtures/release-worker.ts')
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
const BEGUN = {
  applied: MIGRATIONS.slice(0, BEFORE).map(({ name }) => name),
  version: BEFORE,
}
const SENDING = {
  applied: MIGRATIONS.slice(BEFORE).map(({ name }) => name),
  version: SCHEMA_VERSION,
}
const ADDED = { applied: ['next.sql'], version: NEXT }
const NOTHING = { applied: [], version: NEXT }

// Red when old code refuses newer tables, or when new code writes what the old one cannot read; and when a message is
// written that no commit has sent, or one is lost between relays of two releases.
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
  {
    what: 'the tables get the outbox under load, and a pod without it restarts',
    pods: ['without outbox', 'old', 'old', 'without outbox'] as const,
    migrated: [
      BEGUN,
      SENDING,
      { applied: [], version: SCHEMA_VERSION },
      { applied: [], version: SCHEMA_VERSION },
    ],
  },
])(
  'no event is lost or doubled while two releases run side by side: $what',
  async (scenario) => {
    const { url } = await database()
    const pool = new pg.Pool({ connectionString: url, max: 1 })
    // No key is unique here, so a second effect would be seen.
    await pool.query(
      'create table effects (key text not null, sends boolean not null); create table announced (key text not null)',
    )
    const pods: Pod[] = []
    for (const release of scenario.pods) pods.push(await start(release, url))
    expect(pods.map(({ migrated }) => migrated)).toEqual(scenario.migrated)
    const own = await Promise.all(pods.map((pod) => pod.goOn()))
    const { rows } = await pool.query(
      `select count(*)::int as effects, count(distinct key)::int as events,
       (select count(*)::int from onceward.failed_events) as troubled,
       (select count(*)::int from onceward.outbox_messages) as unsent,
       (select array_agg(distinct key order by key) from effects where sends) as sent,
       (select array_agg(distinct key order by key) from announced) as announced from effects`,
    )
    const [{ announced, sent, ...counts }] = rows
    const events = SHARED + own.reduce((sum, count) => sum + count, 0)
    expect(counts).toEqual({ effects: events, events, troubled: 0, unsent: 0 })
    expect(sent.length).toBeGreaterThan(0)
    expect(announced).toEqual(sent)
    await pool.end()
  },
  60_000,
)
