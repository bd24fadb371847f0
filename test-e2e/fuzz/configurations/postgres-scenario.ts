import { randomBytes } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import { createGuard, type Guard, type Logger } from '@onceward/core'
import { migrate, postgresLeases } from '@onceward/postgres'
import { kyselyInbox } from '@onceward/postgres/kysely'
import { pgInbox } from '@onceward/postgres/pg'
import { type PostgresServer, pgbouncer, postgres, until } from '@onceward/testing'
import { hotStandby } from '@onceward/testing/adapter'
import { installedPostgres, postgresOf } from '@onceward/testing/servers'
import { CompiledQuery, Kysely, PostgresDialect } from 'kysely'
import { Pool } from 'pg'
import { LocalQueue } from './local-queue.ts'
import type { PostgresSettings } from './postgres-grid.ts'
import type { Handle, Order, Scenario } from './scenario.ts'
import type { Servers } from './servers.ts'

const PRIVILEGES = new URL('../../../docs/least-privilege.sql', import.meta.url)
const CREATES = /^create role .*;$/gm
/** The oldest version that the grid plays. */
export const OLD_VERSION = 15

/** What the names of our statements could mean in a schema that comes before pg_catalog. */
const SHADOWS = `create schema evil; grant usage on schema evil to public;
create function evil.now() returns timestamptz language sql as $$ select timestamptz 'epoch' $$;
create function evil.current_setting(text) returns text language sql as $$ select '1' $$;
create function evil.differ(uuid, uuid) returns boolean language sql as $$ select false $$;
create operator evil.= (leftarg = uuid, rightarg = uuid, function = evil.differ);
create domain evil.text as integer`

/** The effects of all consumers. */
export const EFFECTS: string = `create table public.effects (consumer text, id text, attempt integer);
grant all on public.effects to public`

/** What every guard of the grid has. The waits are short, so that a cell is. */
export const COMMON: {
  readonly eventKey: (delivery: { readonly payload: unknown }) => string
  readonly retry: { readonly attempts: number; readonly baseMs: number; readonly maxMs: number }
} = {
  eventKey: ({ payload }) => (payload as Order).id,
  retry: { attempts: 2, baseMs: 10, maxMs: 100 },
}

/** One name for the consumer, the login and the database of a cell. */
export const freshName = (): string => `cell_${randomBytes(6).toString('hex')}`

export const startPostgres = (servers: Servers): Promise<PostgresServer> =>
  servers.of('postgres', () => withRoles(postgres({ native: true })))

async function withRoles(starting: Promise<PostgresServer>): Promise<PostgresServer> {
  const server = await starting
  const pool = new Pool({ connectionString: server.connection.url, max: 1 })
  await pool.query([...(await readFile(PRIVILEGES, 'utf8')).matchAll(CREATES)].join('\n'))
  await pool.end()
  return server
}

function serverOf(servers: Servers, { server }: PostgresSettings): Promise<PostgresServer> {
  if (server === 'embedded') return startPostgres(servers)
  return servers.of(server, () => withRoles(startOld()))
}

async function startOld(): Promise<PostgresServer> {
  const found = await installedPostgres(OLD_VERSION)
  if (found === undefined) throw new Error(`PostgreSQL ${OLD_VERSION} is not on this machine.`)
  return postgresOf(found)
}

export async function openPostgres(
  servers: Servers,
  settings: PostgresSettings,
): Promise<Scenario> {
  const { schema, poolMax } = settings
  const server = await serverOf(servers, settings)
  const name = freshName()
  const url = await server.createDatabase(name)
  const operator = new Pool({ connectionString: url, max: 2 })
  operator.on('error', () => undefined)
  await prepare(operator, name, settings)
  const target = await targetOf(servers, { settings, server, name })
  const pool = new Pool({ connectionString: target.url, max: poolMax })
  pool.on('error', () => undefined)
  const queue = new LocalQueue()
  return {
    consumer: name,
    operator,
    schema,
    createGuard: (handle, logger) => createGuardOn(pool, { settings, name, handle, logger }),
    consume: (guard) => queue.consume(guard),
    send: async (orders) => queue.send(orders),
    depth: async () => queue.depth,
    published: async () => queue.published.splice(0),
    close: async () => {
      await pool.end()
      await operator.end()
      await target.stop()
    },
  }
}

/** Tables, the login, and its defaults. */
async function prepare(
  operator: Pool,
  name: string,
  { login, scope, defaults, schema }: PostgresSettings,
): Promise<void> {
  await migrate(operator, { schema })
  await operator.query(EFFECTS)
  const shadowed = defaults['search_path']?.includes('evil') === true
  if (shadowed) await operator.query(SHADOWS)
  if (login === 'consumer') {
    const quoted = `"${schema.replaceAll('"', '""')}"`
    const text = (await readFile(PRIVILEGES, 'utf8')).replaceAll(CREATES, '')
    await operator.query(text.replaceAll(':"schema"', () => quoted))
  }
  const rights = login === 'consumer' ? 'in role onceward_consumer' : 'superuser'
  await operator.query(`create role ${name} login ${rights}`)
  for (const [setting, value] of Object.entries(defaults)) {
    // A search path is a list of names, and no string.
    const text = setting === 'search_path' ? value : `'${value}'`
    await operator.query(`alter ${scope} ${name} set ${setting} = ${text}`)
  }
}

/** A standby may hold its replay for 30 s (`max_standby_streaming_delay`) while a session of another cell reads. */
const REPLAY_MS = 120_000

interface Target {
  readonly url: string
  stop(): Promise<void>
}

/** The url of the cell's login. */
async function targetOf(
  servers: Servers,
  {
    settings,
    server,
    name,
  }: {
    readonly settings: PostgresSettings
    readonly server: PostgresServer
    readonly name: string
  },
): Promise<Target> {
  const urlOn = (base: string): string =>
    Object.assign(new URL(base), { username: name, pathname: `/${name}` }).href
  const stop = async (): Promise<void> => undefined
  switch (settings.reached) {
    case 'direct':
      return { url: urlOn(server.connection.url), stop }
    case 'standby': {
      const standby = await servers.of(`standby of ${settings.server}`, () => hotStandby(server))
      const url = urlOn(standby.connection.url)
      await until(() => isThere(url), {
        what: 'the database on the standby',
        deadlineMs: REPLAY_MS,
      })
      return { url, stop }
    }
    default: {
      const connection = { ...server.connection, user: name }
      const bouncer = await pgbouncer({ connection }, { poolMode: settings.reached })
      return { url: urlOn(bouncer.connection.url), stop: () => bouncer.stop() }
    }
  }
}

async function isThere(url: string): Promise<boolean> {
  const pool = new Pool({ connectionString: url, max: 1 })
  pool.on('error', () => undefined)
  try {
    const { rowCount } = await pool.query('select from public.effects')
    return rowCount === 0
  } catch {
    return false
  } finally {
    await pool.end()
  }
}

interface GuardParts {
  readonly settings: PostgresSettings
  readonly name: string
  readonly handle: Handle
  readonly logger: Logger
}

function createGuardOn(pool: Pool, { settings, name, handle, logger }: GuardParts): Guard {
  const { schema, driver, transaction, isolation, leases, poolMax } = settings
  const options = {
    ...COMMON,
    ...{ consumer: name, transaction, logger },
    ...(leases === 'postgres' ? { leases: postgresLeases(pool, { schema }) } : {}),
  }
  if (driver === 'pg') {
    const inbox = pgInbox(pool, { schema, isolation })
    return createGuard({ ...options, inbox }, ({ payload, key, attempt }, { tx }) =>
      handle({ id: key, deed: (payload as Order).deed, attempt }, (text, values = []) =>
        tx.query(text, [...values]),
      ),
    )
  }
  const db = new Kysely<object>({ dialect: new PostgresDialect({ pool }) })
  const inbox = kyselyInbox(db, { schema, isolation, poolSize: poolMax })
  return createGuard({ ...options, inbox }, ({ payload, key, attempt }, { tx }) =>
    handle({ id: key, deed: (payload as Order).deed, attempt }, (text, values = []) =>
      tx.executeQuery(CompiledQuery.raw(text, [...values])),
    ),
  )
}
