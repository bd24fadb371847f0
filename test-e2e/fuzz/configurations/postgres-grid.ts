import type { Grid } from './grid.ts'

export interface PostgresSettings {
  readonly server: 'embedded' | 'postgres-15'
  readonly reached: 'direct' | 'session' | 'transaction' | 'statement' | 'standby'
  readonly driver: 'pg' | 'kysely'
  readonly transaction: 'each' | 'batch'
  readonly leases: 'none' | 'postgres'
  readonly login: 'owner' | 'consumer'
  /** The defaults of the role, or of the database. */
  readonly scope: 'role' | 'database'
  readonly defaults: Readonly<Record<string, string>>
  readonly schema: string
  readonly poolMax: number
  readonly isolation: 'read committed' | 'repeatable read' | 'serializable'
}

/** A schema whose functions and operators have the names of those of PostgreSQL and do something else. */
const HOSTILE_PATH = 'evil, pg_catalog, public'

export const POSTGRES: Grid<PostgresSettings> = {
  name: 'postgres',
  title: 'PostgreSQL',
  base: {
    server: 'embedded',
    reached: 'direct',
    driver: 'pg',
    transaction: 'each',
    leases: 'none',
    login: 'owner',
    scope: 'role',
    defaults: {},
    schema: 'onceward',
    poolMax: 5,
    isolation: 'read committed',
  },
  // `transaction_timeout` came with PostgreSQL 17. The test kit makes standbys of the embedded version only.
  isImpossible: ({ server, reached, defaults }) =>
    server === 'postgres-15' && ('transaction_timeout' in defaults || reached === 'standby'),
  dimensions: [
    {
      name: 'server',
      choices: [
        { name: 'PostgreSQL 18' },
        { name: 'PostgreSQL 15', set: { server: 'postgres-15' } },
      ],
    },
    {
      name: 'reached',
      choices: [
        { name: 'directly' },
        { name: 'PgBouncer, session mode', set: { reached: 'session' } },
        { name: 'PgBouncer, transaction mode', set: { reached: 'transaction' } },
        {
          name: 'PgBouncer, statement mode',
          set: { reached: 'statement' },
          refused: 'statement pooling',
        },
        { name: 'a hot standby', set: { reached: 'standby' }, waits: 'standby' },
      ],
    },
    {
      name: 'driver',
      choices: [{ name: 'pg' }, { name: 'Kysely', set: { driver: 'kysely' } }],
    },
    {
      name: '`transaction`',
      choices: [{ name: 'each' }, { name: 'batch', set: { transaction: 'batch' } }],
    },
    {
      name: 'leases',
      choices: [{ name: 'none' }, { name: '`postgresLeases`', set: { leases: 'postgres' } }],
    },
    {
      name: 'login',
      choices: [
        { name: 'owner of the tables' },
        {
          name: 'role of least-privilege.sql, row-level security',
          set: { login: 'consumer' },
        },
      ],
    },
    {
      name: 'where defaults are set',
      choices: [{ name: 'role' }, { name: 'database', set: { scope: 'database' } }],
    },
    {
      name: '`isolation` of the inbox',
      choices: [
        { name: 'read committed' },
        { name: 'repeatable read', set: { isolation: 'repeatable read' } },
        { name: 'serializable', set: { isolation: 'serializable' } },
      ],
    },
    {
      name: 'default_transaction_isolation',
      choices: [
        { name: 'read committed' },
        ...['repeatable read', 'serializable'].map((level) => ({
          name: level,
          set: { defaults: { default_transaction_isolation: level } },
        })),
      ],
    },
    {
      name: 'default_transaction_read_only',
      choices: [
        { name: 'off' },
        { name: 'on', set: { defaults: { default_transaction_read_only: 'on' } } },
      ],
    },
    {
      name: 'timeouts',
      // Shorter than the guard's own, and long enough for a busy machine, which stands still for 300 ms now and then.
      choices: [
        { name: 'none' },
        ...[
          ['statement_timeout', '2s'],
          ['lock_timeout', '1ms'],
          ['idle_in_transaction_session_timeout', '2s'],
          ['transaction_timeout', '2s'],
          ['idle_session_timeout', '500ms'],
        ].map(([name = '', value = '']) => ({
          name: `${name} ${value}`,
          set: { defaults: { [name]: value } },
        })),
      ],
    },
    {
      name: 'synchronous_commit',
      choices: [
        { name: 'on' },
        ...['off', 'local', 'remote_apply'].map((value) => ({
          name: value,
          set: { defaults: { synchronous_commit: value } },
        })),
      ],
    },
    {
      name: 'search_path',
      choices: [
        { name: 'default' },
        { name: 'shadows pg_catalog', set: { defaults: { search_path: HOSTILE_PATH } } },
        { name: 'empty', set: { defaults: { search_path: "''" } } },
      ],
    },
    {
      name: 'row_security',
      choices: [
        { name: 'on' },
        {
          name: 'off',
          set: { defaults: { row_security: 'off' } },
          refusedIf: {
            when: ({ login }) => login === 'consumer',
            names: '`row_security` is off',
            says: 'if row-level security applies to the login',
          },
        },
      ],
    },
    {
      name: 'session_replication_role',
      choices: [
        { name: 'origin' },
        { name: 'replica', set: { defaults: { session_replication_role: 'replica' } } },
      ],
    },
    {
      name: 'texts and formats',
      choices: [
        { name: 'default' },
        ...[
          ['client_encoding', 'LATIN1'],
          ['standard_conforming_strings', 'off'],
          ['bytea_output', 'escape'],
          ['TimeZone', 'Asia/Kathmandu'],
          ['DateStyle', 'German, DMY'],
          ['IntervalStyle', 'sql_standard'],
          ['extra_float_digits', '-15'],
        ].map(([name = '', value = '']) => ({
          name: `${name} ${value}`,
          set: { defaults: { [name]: value } },
        })),
      ],
    },
    {
      name: '`schema`',
      choices: [
        { name: '`onceward`' },
        {
          name: 'with quotes, spaces and capitals',
          set: { schema: `On"ce 'W' – ward` },
        },
      ],
    },
    {
      name: '`max` of the pool',
      choices: [
        { name: '5' },
        { name: '3', set: { poolMax: 3 } },
        { name: '2', set: { poolMax: 2 } },
        { name: '1', set: { poolMax: 1 } },
      ],
    },
  ],
}
