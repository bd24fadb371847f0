import type { Step, StepKind } from './playing.ts'

const steps: Record<string, Step> = {}
/** Names what a step makes. */
let plays = 0
const sql = (then: StepKind, ...texts: readonly string[]): void => {
  const play: Step['play'] = async (playing) => {
    plays += 1
    const number = String(plays)
    for (const text of texts) await playing.sql(text.replaceAll('#', number))
  }
  steps[texts.join('; ')] = { then, of: 'sql', play }
}
const step = (name: string, of: Step['of'], play: Step['play'], then: StepKind = 'own'): void => {
  steps[name] = { then, of, play }
}

// Settings, roles, search paths.
const SETTINGS: readonly (readonly [name: string, value: string])[] = [
  ['search_path', 'zoo_hostile, pg_catalog'],
  ['app.tenant', "'acme'"],
  ['statement_timeout', "'20s'"],
  ['lock_timeout', "'50ms'"],
  ['idle_in_transaction_session_timeout', '0'],
  ['synchronous_commit', 'off'],
  ['client_encoding', "'LATIN1'"],
  ['datestyle', "'German'"],
  ['timezone', "'Asia/Kathmandu'"],
  ['bytea_output', "'escape'"],
  ['standard_conforming_strings', 'off'],
  ['default_transaction_read_only', 'on'],
  ['default_transaction_isolation', "'serializable'"],
  ['row_security', 'off'],
  ['transaction_timeout', "'20s'"],
]
for (const [name, value] of SETTINGS) {
  sql('fine', `set ${name} = ${value}`)
  sql('fine', `set local ${name} = ${value}`)
}
for (const scope of ['', 'local ']) {
  sql('fine', `set ${scope}role zoo_limited`)
  sql('fine', `set ${scope}session authorization zoo_limited`)
}
sql('fine', "select set_config('search_path', 'zoo_hostile', true)")
sql('fine', "select set_config('app.tenant', 'acme', false)")
sql('fine', "do $$ begin perform set_config('role', 'zoo_limited', true); end $$")
for (const what of ['all', 'role', 'session authorization', 'search_path'])
  sql('fine', `reset ${what}`)
for (const what of ['plans', 'sequences', 'temp']) sql('fine', `discard ${what}`)
sql('fine', 'set constraints all deferred')
sql('aborts', 'discard all')
sql('aborts', 'set transaction isolation level serializable')

// Errors of the server.
const STATES = [
  ...['08000', '08003', '08006', '25006', '25P03', '28000', '3D000', '40001', '40P01', '53300'],
  ...[
    '57014',
    '57P01',
    '57P03',
    '58030',
    '22003',
    '23505',
    '23514',
    '42501',
    'XX000',
    '55P03',
    '01000',
  ],
]
for (const state of STATES) {
  sql('aborts', `do $$ begin raise exception 'mine' using errcode = '${state}'; end $$`)
}
sql('aborts', 'select 1/0')
sql('aborts', 'insert into zoo.once values (1)')
sql('aborts', 'select from nowhere')
sql('aborts', 'syntax error')
sql('aborts', 'vacuum')
sql(
  'aborts',
  'select pg_catalog.pg_cancel_backend(pg_catalog.pg_backend_pid()), pg_catalog.pg_sleep(5)',
)
sql('aborts', 'copy zoo.once from stdin')
for (const state of ['23514', '08006', '40001', '40P01', '25006', '57014', '57P01', '53100']) {
  step(
    `a constraint that fails at commit with ${state}`,
    'sql',
    async (playing) => {
      await playing.sql(`insert into zoo.deferred values ('${state}')`)
      playing.fact.doomed ??= 'a constraint fails at commit'
    },
    'fine',
  )
}
step(
  'set transaction read only',
  'sql',
  async ({ sql: run, fact }) => {
    fact.isLoose = true
    await run('set transaction read only')
  },
  'fine',
)

// What outlives a statement.
sql('fine', 'declare c_# cursor for select generate_series(1, 1000)', 'fetch 3 from c_#')
sql('fine', 'declare c_# cursor with hold for select 1', 'fetch 3 from c_#', 'close all')
sql('fine', 'declare h_# cursor with hold for select 1')
sql('fine', 'copy (select generate_series(1, 100)) to stdout')
sql('fine', 'listen zoo', "notify zoo, 'hello'")
sql('fine', 'unlisten *')
sql('fine', 'select pg_catalog.pg_advisory_xact_lock(#)')
sql('fine', 'select pg_catalog.pg_advisory_lock(#)', 'select pg_catalog.pg_advisory_unlock(#)')
sql('fine', 'create temporary table t_# (a int) on commit drop', 'insert into t_# values (1)')
sql('fine', 'create temporary table k_# (a int)')
sql('fine', 'prepare p_# as select 1', 'execute p_#', 'deallocate all')
sql('fine', 'prepare q_# as select 1')
sql('fine', 'lock table zoo.effects in row exclusive mode')
sql('fine', "set local app.tenant = 'acme'; select 1; select 2")

/** Single statements: settings, roles, errors of the server, things that outlive a statement. */
export const SQL_STEPS: Readonly<Record<string, Step>> = steps
