import { execFile } from 'node:child_process'
import { mkdir, mkdtemp, readdir, readFile, rename, rm, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { promisify } from 'node:util'
import { cacheDirectory, withLock } from '../../packages/testing/src/servers/redis/cache.ts'

const run = promisify(execFile)
const KEYS = '/usr/share/keyrings/debian-archive-keyring.gpg'

/** A program of a newer Debian, which runs from a folder beside this system. */
export interface Unpacked {
  readonly folder: string
  readonly version: string
}

/**
 * Unpacks a package of a suite with all that it needs, the C library included, into the cache. Nothing is installed.
 *
 * @returns Undefined where the suite cannot be had: no Debian, or no mirror.
 */
export function unpacked(suite: string, name: string): Promise<Unpacked | undefined> {
  return withLock(`debian-${suite}`, async () => {
    const root = join(await cacheDirectory(), `debian-${suite}`)
    const apt = await aptOf(root, suite)
    const asked = await apt('apt-cache', 'show', '--no-all-versions', name).catch(() => undefined)
    const version = /^Version: (.*)$/m.exec(asked ?? '')?.[1]
    if (version === undefined) return undefined
    const folder = join(root, `${name}-${version.replaceAll(/[^\w.+-]/g, '_')}`)
    if ((await readdir(folder).catch(() => [])).length === 0) {
      await unpack(apt, { folder, name, archives: join(root, 'cache/archives') })
    }
    return { folder, version }
  })
}

type Apt = (command: string, ...args: readonly string[]) => Promise<string>

/** An apt of its own, for which nothing is installed. */
async function aptOf(root: string, suite: string): Promise<Apt> {
  await mkdir(join(root, 'state/lists/partial'), { recursive: true })
  await mkdir(join(root, 'cache/archives/partial'), { recursive: true })
  await writeFile(join(root, 'state/status'), '')
  const list = join(root, 'sources.list')
  await writeFile(list, `deb [signed-by=${KEYS}] http://deb.debian.org/debian ${suite} main\n`)
  const config = join(root, 'apt.conf')
  await writeFile(
    config,
    `Dir::Etc::sourcelist "${list}";
Dir::Etc::sourceparts "/dev/null";
Dir::Etc::preferencesparts "/dev/null";
Dir::State "${root}/state";
Dir::State::status "${root}/state/status";
Dir::Cache "${root}/cache";
APT::Install-Recommends "false";
`,
  )
  const options = { env: { ...process.env, APT_CONFIG: config }, maxBuffer: 2 ** 26 }
  const apt: Apt = async (command, ...args) => (await run(command, [...args], options)).stdout
  await apt('apt-get', '-qq', 'update').catch(() => undefined)
  return apt
}

async function unpack(
  apt: Apt,
  {
    archives,
    folder,
    name,
  }: { readonly archives: string; readonly folder: string; readonly name: string },
): Promise<void> {
  await apt('apt-get', 'clean')
  await apt('apt-get', '-qq', '-y', '--download-only', 'install', name)
  const draft = await mkdtemp(`${folder}-`)
  for (const file of await readdir(archives)) {
    if (file.endsWith('.deb')) await run('dpkg-deb', ['-x', join(archives, file), draft])
  }
  await rm(folder, { recursive: true, force: true })
  // Its programs are given their final place, because their paths are absolute.
  await rename(draft, folder)
  await settle(folder)
}

/** Of this system's Debian, and not installed either. */
async function patchelf(): Promise<string> {
  const folder = join(await cacheDirectory(), 'patchelf')
  const program = join(folder, 'usr/bin/patchelf')
  if ((await readdir(dirname(program)).catch(() => [])).length > 0) return program
  await mkdir(folder, { recursive: true })
  await run('apt-get', ['download', 'patchelf'], { cwd: folder })
  const file = (await readdir(folder)).find((each) => each.endsWith('.deb')) ?? ''
  await run('dpkg-deb', ['-x', join(folder, file), folder])
  return program
}

const PROGRAMS = ['usr/bin', 'usr/sbin', 'usr/lib/erlang', 'usr/lib/rabbitmq']

/** Programs get the loader and the libraries of their own suite, and scripts the folder in place of `/usr/lib`. */
async function settle(folder: string): Promise<void> {
  const libraries = join(folder, 'usr/lib/x86_64-linux-gnu')
  const loader = join(libraries, 'ld-linux-x86-64.so.2')
  const patch = await patchelf()
  const search = ['--force-rpath', '--set-rpath', `${libraries}:${libraries}/systemd`]
  for (const path of await filesBelow(folder, PROGRAMS)) {
    const bytes = await readFile(path)
    if (bytes.subarray(1, 4).toString('latin1') === 'ELF') {
      await run(patch, ['--set-interpreter', loader, ...search, path]).catch(() =>
        run(patch, [...search, path]).catch(() => undefined),
      )
    } else if (bytes.subarray(0, 2).toString('latin1') === '#!' || path.includes('/sbin/')) {
      const text = bytes.toString('latin1')
      const moved = text.replaceAll(
        /(^|[^\w.])(\/usr\/lib\/(?:erlang|rabbitmq))/gm,
        (_, before: string, own: string) => `${before}${folder}${own}`,
      )
      if (moved !== text) await writeFile(path, moved, 'latin1')
    }
  }
}

async function filesBelow(folder: string, parts: readonly string[]): Promise<readonly string[]> {
  const lists = await Promise.all(
    parts.map(async (part) => {
      const options = { recursive: true, withFileTypes: true } as const
      const entries = await readdir(join(folder, part), options).catch(() => [])
      return entries.filter((each) => each.isFile()).map((each) => join(each.parentPath, each.name))
    }),
  )
  // Beam files and documents are no programs.
  return lists.flat().filter((path) => !/\.(?:beam|app|boot|script|hrl|erl|gz)$/.test(path))
}

/** Folders of its programs, for PATH. */
export const programsOf = ({ folder }: Unpacked): readonly string[] => [
  join(folder, 'usr/lib/rabbitmq/bin'),
  join(folder, 'usr/bin'),
]

/** A folder with one program under another name, for PATH. */
export async function renamed(own: Unpacked, path: string, name: string): Promise<string> {
  const target = join(own.folder, 'as', name)
  await mkdir(dirname(target), { recursive: true })
  const text = `#!/bin/sh\nexec '${join(own.folder, path)}' "$@"\n`
  await writeFile(target, text, { mode: 0o755 })
  return dirname(target)
}
