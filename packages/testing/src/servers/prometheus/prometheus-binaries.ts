import { execFile } from 'node:child_process'
import { randomUUID } from 'node:crypto'
import { access, mkdir, readdir, rename, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { cacheDirectory, withLock } from '../redis/cache.ts'
import { ServerMissingError } from '../run/server.ts'

const run = promisify(execFile)

export interface PrometheusBinaries {
  readonly prometheus: string
  /** Checks rules and parses queries. */
  readonly promtool: string
}

/**
 * Both programs of Debian's package `prometheus`, which is downloaded and unpacked once into the cache: it is not
 * installed, so no service starts and no right is needed. Programs on the PATH come first.
 */
export async function prometheusBinaries(): Promise<PrometheusBinaries> {
  const installed = { prometheus: 'prometheus', promtool: 'promtool' }
  if (await runs(installed.promtool)) return installed
  const directory = join(await cacheDirectory(), 'prometheus')
  if (!(await exists(directory))) await withLock('prometheus', () => unpack(directory))
  const programs = join(directory, 'usr/bin')
  return { prometheus: join(programs, 'prometheus'), promtool: join(programs, 'promtool') }
}

async function unpack(directory: string): Promise<void> {
  if (await exists(directory)) return
  const draft = `${directory}-${randomUUID()}`
  await mkdir(draft, { recursive: true })
  process.stderr.write(`onceward: downloading the Debian package prometheus to ${directory}\n`)
  try {
    await download(draft)
    const [file = ''] = (await readdir(draft)).filter((name) => name.endsWith('.deb'))
    await run('dpkg-deb', ['-x', join(draft, file), draft])
    await rm(join(draft, file))
    await rename(draft, directory)
  } catch (error) {
    await rm(draft, { recursive: true, force: true })
    throw new ServerMissingError(
      'prometheus could not be downloaded with `apt-get download prometheus`. Put prometheus and promtool on the PATH, or ONCEWARD_SKIP=prometheus skips its tests.',
      { cause: error },
    )
  }
}

async function download(directory: string): Promise<void> {
  const args = ['download', 'prometheus']
  try {
    await run('apt-get', args, { cwd: directory })
  } catch {
    // Package lists may be absent or older than the archive.
    await run('apt-get', ['update', '-q'])
    await run('apt-get', args, { cwd: directory })
  }
}

const runs = (program: string): Promise<boolean> =>
  run(program, ['--version']).then(
    () => true,
    () => false,
  )

const exists = (path: string): Promise<boolean> =>
  access(path).then(
    () => true,
    () => false,
  )
