import { mkdirSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { migrate } from '@onceward/postgres'
import { database, until } from '@onceward/testing'
import { Pool } from 'pg'
import { expect, test } from 'vitest'
import { Caller } from './caller.ts'

const PATIENT = { deadlineMs: 120_000 }

// Red when the key is the time at which a process fires, and when the others do not wait for the one that runs.
test('a cron job of three processes, of which the one that runs is killed: each tick has one effect', async () => {
  const { url } = await database()
  const pool = new Pool({ connectionString: url })
  await migrate(pool)
  await pool.query('create table reports (tick timestamptz not null, pid int not null)')
  const scratch = mkdtempSync(join(tmpdir(), 'onceward-ticks-'))
  await using callers = new AsyncDisposableStack()
  const directory = join(scratch, 'stuck')
  const start = (): Caller => callers.use(new Caller('ticking-main.ts', { url, directory }))
  const runsOf = async (): Promise<ReadonlyMap<string, number>> => {
    const { rows } = await pool.query('select tick, count(*)::int from reports group by tick')
    return new Map(rows.map(({ count, tick }) => [tick.toISOString(), count]))
  }

  const replicas = Array.from({ length: 3 }, start)
  const areUp = (): boolean => replicas.every((each) => each.has('fired'))
  await until(areUp, { what: 'a tick of each replica', ...PATIENT })
  mkdirSync(directory)
  await until(() => replicas.some((each) => each.has('stuck')), { what: 'a run', ...PATIENT })
  const victim = replicas.find((each) => each.has('stuck')) as Caller
  const others = replicas.filter((each) => each !== victim)
  const [tick = ''] = victim.ticks('stuck')
  const areWaiting = (): boolean => others.some((each) => each.ticks('fired').includes(tick))
  await until(areWaiting, { what: 'replicas that wait', ...PATIENT })
  expect((await runsOf()).get(tick)).toBeUndefined()
  await victim.kill()
  await until(async () => (await runsOf()).get(tick) === 1, { what: 'a takeover', ...PATIENT })

  await others[0]?.kill()
  const living = others.slice(1)
  const fired = (): readonly string[] => living.flatMap((each) => each.ticks('fired'))
  const before = new Set(fired()).size
  await until(() => new Set(fired()).size > before + 2, { what: 'more ticks', ...PATIENT })
  const ticks = new Set(fired())
  const haveRun = async (): Promise<boolean> => {
    const runs = await runsOf()
    return [...ticks].every((each) => runs.has(each))
  }
  await until(haveRun, { what: 'a run of each tick', ...PATIENT })
  await Promise.all(living.map((each) => each.stop()))

  expect(new Set((await runsOf()).values())).toEqual(new Set([1]))
  await pool.end()
  rmSync(scratch, { recursive: true })
})
