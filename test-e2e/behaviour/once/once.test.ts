import { migrate } from '@onceward/postgres'
import { database, until } from '@onceward/testing'
import { Pool } from 'pg'
import { expect, test } from 'vitest'
import { Caller } from './caller.ts'

const CALLS = 10

// Red when the row of the key is committed before the handler has returned: the others then wait for a dead process.
test('fifty callers of one key in five processes, of which the one that runs is killed: one effect, one answer', async () => {
  const { url } = await database()
  const pool = new Pool({ connectionString: url })
  await migrate(pool)
  await pool.query('create table reports (id serial primary key, pid int not null)')
  await using callers = new AsyncDisposableStack()
  const start = (isStuck: boolean): Caller =>
    callers.use(new Caller('caller-main.ts', { url, calls: CALLS, isStuck }))

  const victim = start(true)
  await until(() => victim.has('running'), { what: 'a run of the handler', deadlineMs: 60_000 })
  const others = Array.from({ length: 4 }, () => start(false))
  const areWaiting = (): boolean => others.every((each) => each.has('waiting', CALLS))
  await until(areWaiting, { what: 'callers that wait', deadlineMs: 60_000 })
  expect((await pool.query('select from reports')).rowCount).toBe(0)
  await victim.kill()

  expect(await Promise.all(others.map((each) => each.ended()))).toEqual([0, 0, 0, 0])
  const { rows } = await pool.query('select id as report from reports')
  expect(rows).toHaveLength(1)
  expect(victim.answers).toEqual([])
  expect(others.flatMap(({ answers }) => answers)).toEqual(Array(4 * CALLS).fill(rows[0]))
  expect(others.filter((each) => each.has('running'))).toHaveLength(1)
  await pool.end()
})
