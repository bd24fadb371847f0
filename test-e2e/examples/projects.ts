import { execFile } from 'node:child_process'
import { mkdir, mkdtemp, readdir, rm, symlink } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'

const root = join(import.meta.dirname, '../..')
const MEGABYTES = 16 * 1024 * 1024
const runFile = promisify(execFile)

/** Runs a command to its end; resolves with what it printed, and rejects with that if it fails. */
export async function run(
  command: string,
  args: readonly string[],
  options: { readonly cwd?: string; readonly env?: NodeJS.ProcessEnv } = {},
): Promise<string> {
  const env = { ...process.env, ...options.env }
  // Vitest and node:test tell by these variables that they run inside another test.
  for (const name of Object.keys(env)) if (/^(VITEST|NODE_TEST|TEST$)/.test(name)) delete env[name]
  const given = { cwd: options.cwd ?? root, env, maxBuffer: MEGABYTES }
  try {
    const { stdout, stderr } = await runFile(command, args, given)
    return stdout + stderr
  } catch (error) {
    const { stdout = '', stderr = '' } = error as { stdout?: string; stderr?: string }
    throw new Error(`${command} ${args.join(' ')} failed:\n${stdout}${stderr}`, { cause: error })
  }
}

/** A package as `npm pack` describes it. */
export interface Packed {
  readonly name: string
  readonly files: readonly { readonly path: string }[]
}

/** The packages as they would be published, in a folder of their own. */
export interface Tarballs extends AsyncDisposable {
  readonly directory: string
  readonly packed: readonly Packed[]
  /** The tarball of a package, such as `onceward-core`. */
  file(name: string): string
  /** A folder beside the tarballs, which is removed with them. */
  folder(name: string): string
  /** The program of the packed `create-onceward`. */
  readonly create: string
}

export async function packAll(): Promise<Tarballs> {
  const base = await mkdtemp(join(tmpdir(), 'onceward-examples-'))
  const directory = join(base, 'tarballs')
  await mkdir(directory)
  const args = ['pack', '--json', '--ignore-scripts', '--workspace=packages']
  const answer: unknown = JSON.parse(
    await run('npm', [...args, '--loglevel=silent', `--pack-destination=${directory}`]),
  )
  const files = await readdir(directory)
  const file = (name: string): string => {
    const found = files.find((each) => new RegExp(`^${name}-\\d.*\\.tgz$`).test(each))
    if (found === undefined) throw new Error(`${name} is not in ${directory}`)
    return join(directory, found)
  }
  const unpacked = join(base, 'create')
  await unpack(file('create-onceward'), unpacked)
  return {
    directory,
    packed: (Array.isArray(answer) ? answer : Object.values(answer as object)) as Packed[],
    file,
    folder: (name) => join(base, name),
    create: join(unpacked, 'bin/create-onceward.js'),
    [Symbol.asyncDispose]: () => rm(base, { recursive: true, force: true }),
  }
}

async function unpack(file: string, to: string): Promise<void> {
  await mkdir(to, { recursive: true })
  await run('tar', ['-xzf', file, '-C', to, '--strip-components=1'])
}

/**
 * Installs the packed packages into a project, and links what they and the project need besides from this checkout: in
 * seconds, and without a registry.
 */
export async function linkPacked({ directory }: Tarballs, project: string): Promise<void> {
  const installed = join(root, 'node_modules')
  const target = join(project, 'node_modules')
  await mkdir(join(target, '@onceward'), { recursive: true })
  const isOurs = (name: string): boolean => /^(@onceward|onceward|create-onceward)$/.test(name)
  for (const name of (await readdir(installed)).filter((each) => !isOurs(each))) {
    await symlink(join(installed, name), join(target, name))
  }
  for (const file of await readdir(directory)) {
    const [, name] = /^onceward(?:-([a-z-]+))?-\d/.exec(file) ?? []
    if (file.startsWith('create-')) continue
    await unpack(join(directory, file), join(target, name ? `@onceward/${name}` : 'onceward'))
  }
}
