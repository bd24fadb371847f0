import { chown, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { nativeServer, retryTakenPort, serverDirectory } from '../run/native.ts'
import { freePort } from '../run/ports.ts'
import { launch } from '../run/process.ts'
import type { Server } from '../run/server.ts'
import { type Need, toolPaths } from '../run/tools.ts'
import { connectionOf, type PostgresConnection, probePostgres } from './postgres.ts'
import { baseDirectory } from './postgres-binaries.ts'
import { unprivilegedUser } from './users.ts'

/** What PgBouncer needs. */
export const PGBOUNCER_TOOLS: Need = {
  service: 'pgbouncer',
  tools: [{ command: 'pgbouncer', package: 'pgbouncer' }],
}

/** Options of {@link pgbouncer}. */
export interface PgbouncerOptions {
  readonly poolMode?: 'session' | 'transaction' | 'statement' | undefined
  /** More settings of the section `[pgbouncer]`. */
  readonly settings?: Readonly<Record<string, string>> | undefined
}

/**
 * PgBouncer in front of all databases of a Postgres server. The url leads to the database that the
 * url of the server names; another path leads to another database.
 */
export async function pgbouncer(
  server: { readonly connection: PostgresConnection },
  options: PgbouncerOptions = {},
): Promise<Server<PostgresConnection>> {
  return retryTakenPort(() => nativePgbouncer(server.connection, options))
}

async function nativePgbouncer(
  target: PostgresConnection,
  options: PgbouncerOptions,
): Promise<Server<PostgresConnection>> {
  const tools = await toolPaths(PGBOUNCER_TOOLS)
  const user = await unprivilegedUser('pgbouncer')
  const port = await freePort()
  const directory = await serverDirectory('pgbouncer', await baseDirectory())
  const config = join(directory, 'pgbouncer.ini')
  await writeFile(config, configOf(target, port, options), { mode: 0o644 })
  if (user !== undefined) await chown(directory, user.uid, user.gid)
  const log = join(directory, 'pgbouncer.log')
  const url = Object.assign(new URL(target.url), { host: `127.0.0.1:${port}` }).href
  return nativeServer({
    name: 'pgbouncer',
    connection: connectionOf(url),
    directory,
    log,
    stopSignal: 'SIGINT',
    launch: () =>
      launch({
        command: tools['pgbouncer'] as string,
        args: [config],
        cwd: directory,
        user,
        log,
        directory,
      }),
    probe: () => probePostgres(url),
  })
}

function configOf(target: PostgresConnection, port: number, options: PgbouncerOptions): string {
  const password = target.password === undefined ? '' : ` password=${target.password}`
  const settings = {
    listen_addr: '127.0.0.1',
    listen_port: String(port),
    unix_socket_dir: '',
    auth_type: 'any',
    pool_mode: options.poolMode ?? 'transaction',
    max_client_conn: '500',
    default_pool_size: '20',
    ignore_startup_parameters: 'extra_float_digits,search_path',
    ...options.settings,
  }
  const lines = Object.entries(settings).map(([name, value]) => `${name} = ${value}\n`)
  return `[databases]
* = host=${target.host} port=${target.port} user=${target.user}${password}
[pgbouncer]
${lines.join('')}`
}
