import { migrate } from '@onceward/postgres'
import { database } from '@onceward/testing'
import pg from 'pg'
import { expect, test } from 'vitest'
import { answer, cli } from '../fixtures/cli.ts'

async function fresh(): Promise<
  AsyncDisposable & { readonly url: string; readonly pool: pg.Pool }
> {
  const { url } = await database()
  const pool = new pg.Pool({ connectionString: url })
  return { url, pool, [Symbol.asyncDispose]: () => pool.end() }
}

/** Everything that a migration makes, without the random values of the settings. */
async function shapeOf(pool: pg.Pool): Promise<unknown> {
  const { rows } = await pool.query(`
    select 'column' as kind, table_name || '.' || column_name || ' ' || data_type || coalesce(column_default, '') as it
    from information_schema.columns where table_schema = 'onceward'
    union all select 'index', indexdef from pg_indexes where schemaname = 'onceward'
    union all select 'function', pg_get_functiondef(oid) from pg_proc where pronamespace = 'onceward'::regnamespace
    union all select 'trigger', pg_get_triggerdef(oid) from pg_trigger where tgrelid::regclass::text like 'onceward.%' and not tgisinternal
    union all select 'migration', version || name || coalesce(readable_from, -1) from onceward.migrations
    order by 1, 2`)
  return rows
}

test('migrate creates the tables, says so once, and --check tells before and after', async () => {
  await using at = await fresh()
  const before = await cli(['migrate', '--check'], at)
  expect(before).toMatchObject({ code: 1, stdout: expect.stringContaining('There are no tables') })
  const first = await cli(['migrate'], at)
  expect(first.stdout).toMatch(/^Applied 000001-inbox\.sql, .*: the tables have version \d+\.\n$/)
  expect(await answer(['migrate'], at)).toEqual({ applied: [], version: expect.any(Number) })
  expect(await cli(['migrate', '--check'], at)).toMatchObject({
    code: 0,
    stdout: expect.stringContaining('The tables are current'),
  })
})

test('what --print prints makes the same tables as migrate, also in another schema', async () => {
  await using byHand = await fresh()
  await using byCommand = await fresh()
  const { stdout } = await cli(['migrate', '--print'])
  await byHand.pool.query(stdout)
  await migrate(byCommand.pool)
  expect(await shapeOf(byHand.pool)).toEqual(await shapeOf(byCommand.pool))
  expect((await cli(['migrate', '--check'], byHand)).code).toBe(0)
  const other = await cli(['migrate', '--print', '--schema', 'a "b"'])
  await byHand.pool.query(other.stdout)
  const checked = await cli(['migrate', '--check', '--schema', 'a "b"'], byHand)
  expect(checked.code).toBe(0)
})

test('--print --after prints only what follows, and nothing after the newest', async () => {
  const all = await answer<readonly { readonly version: number }[]>(['migrate', '--print'])
  const later = await answer(['migrate', '--print', '--after', '1'])
  expect(later).toEqual(all.filter(({ version }) => version > 1))
  expect(await answer(['migrate', '--print', '--after', '99'])).toEqual([])
})

test.each([
  [
    'older',
    'delete from onceward.migrations where version > 1',
    1,
    /migrate` would apply 000002-leases\.sql, 000003-workers/,
  ],
  [
    'newer',
    "insert into onceward.migrations (version, name, readable_from) values (99, 'x', 2)",
    0,
    /version 99/,
  ],
  [
    'too-new',
    "insert into onceward.migrations (version, name) values (99, 'x')",
    1,
    /update `onceward`/,
  ],
])(
  'tables that are %s are named, and the other commands say what to do',
  async (kind, sql, code, text) => {
    await using at = await fresh()
    await migrate(at.pool)
    await at.pool.query(sql)
    const checked = await cli(['migrate', '--check'], at)
    expect(checked).toMatchObject({ code, stdout: expect.stringMatching(text) })
    const status = await cli(['status'], at)
    expect(status.code).toBe(kind === 'newer' ? 0 : 3)
    if (kind !== 'newer') {
      expect(status.stderr).toMatch(
        /^onceward: The tables in schema "onceward" .* have version \d+/,
      )
      expect(status.stderr).toMatch(
        kind === 'older' ? /npx onceward migrate/ : /Update the package/,
      )
    }
  },
)
