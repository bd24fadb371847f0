import {
  copyFileSync,
  cpSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  writeFileSync,
} from 'node:fs'
import { basename, join, resolve } from 'node:path'
import { gunzipSync } from 'node:zlib'

/** What the person can repair: its message is shown without a stack. */
export class CreateError extends Error {
  override readonly name = 'CreateError'
}

export interface Example {
  readonly name: string
  readonly description: string
  readonly directory: string
}

interface Manifest {
  readonly name: string
  readonly version?: string
  readonly description?: string
  readonly dependencies?: Readonly<Record<string, string>>
  readonly devDependencies?: Readonly<Record<string, string>>
  readonly peerDependencies?: Readonly<Record<string, string>>
}

const manifestOf = (directory: string): Manifest =>
  JSON.parse(readFileSync(join(directory, 'package.json'), 'utf8'))

export function examplesIn(directory: string): readonly Example[] {
  return readdirSync(directory).map((name) => {
    const path = join(directory, name)
    return { name, description: manifestOf(path).description ?? '', directory: path }
  })
}

const isOurs = (name: string): boolean => name === 'onceward' || name.startsWith('@onceward/')

interface Packed {
  /** What npm understands. */
  readonly file: string
  /** Packages of onceward that it needs. */
  readonly needs: readonly string[]
}

const BLOCK = 512
const [NAME_END, SIZE_AT, SIZE_END] = [100, 124, 136]

/** The manifest of a packed package: `package/package.json` of a tar archive. */
function packedManifest(file: string): Manifest {
  const archive = gunzipSync(readFileSync(file))
  for (let at = 0; at + BLOCK <= archive.length; ) {
    const text = (from: number, to: number): string =>
      archive
        .toString('latin1', at + from, at + to)
        .split('\0', 1)
        .join()
    const size = Number.parseInt(text(SIZE_AT, SIZE_END), 8) || 0
    const body = at + BLOCK
    if (text(0, NAME_END) === 'package/package.json')
      return JSON.parse(archive.toString('utf8', body, body + size))
    at = body + Math.ceil(size / BLOCK) * BLOCK
  }
  throw new CreateError(`${file} is not a packed package.`)
}

function needsOf(file: string): readonly string[] {
  const { dependencies, peerDependencies } = packedManifest(file)
  return Object.keys({ ...dependencies, ...peerDependencies }).filter(isOurs)
}

/** The packed packages in a folder, by name. */
function packed(folder: string): ReadonlyMap<string, Packed> {
  const files = existsSync(folder) ? readdirSync(folder) : []
  const found = files.flatMap((file) => {
    const match = /^onceward(?:-([a-z-]+))?-\d.*\.tgz$/.exec(file)
    if (match === null) return []
    const name = match[1] === undefined ? 'onceward' : `@onceward/${match[1]}`
    const path = resolve(folder, file)
    return [[name, { file: `file:${path}`, needs: needsOf(path) }] as const]
  })
  if (found.length === 0) throw new CreateError(`There is no onceward-….tgz in ${folder}.`)
  return new Map(found)
}

/** The packages that these need, and which they need in turn. */
function neededBy(names: readonly string[], all: ReadonlyMap<string, Packed>): ReadonlySet<string> {
  const needed = new Set(names)
  for (const name of needed) for (const each of all.get(name)?.needs ?? []) needed.add(each)
  return needed
}

/** What npm accepts as the name of a package. */
const nameOf = (folder: string): string =>
  basename(resolve(folder))
    .toLowerCase()
    .replaceAll(/[^a-z0-9]+/g, '-')
    .replaceAll(/^-|-$/g, '') || 'my-service'

/** All packages of onceward have one version, which this package has too. */
function ownVersion(): string {
  return `^${manifestOf(join(import.meta.dirname, '..')).version}`
}

function adapt(manifest: Manifest, folder: string, packages: string | undefined): object {
  const tarballs = packages === undefined ? undefined : packed(packages)
  const versioned = (dependencies: Readonly<Record<string, string>> = {}) =>
    Object.fromEntries(
      Object.entries(dependencies).map(([name, range]) => {
        if (!isOurs(name)) return [name, range]
        if (tarballs === undefined) return [name, ownVersion()]
        const found = tarballs.get(name)
        if (found === undefined)
          throw new CreateError(`${name} is not in ${packages}: pack it too.`)
        return [name, found.file]
      }),
    )
  const dependencies = versioned(manifest.dependencies)
  const devDependencies = versioned(manifest.devDependencies)
  const named = Object.keys({ ...dependencies, ...devDependencies }).filter(isOurs)
  // Only what they need beside themselves: npm refuses an override of a package that is installed by name later.
  const needed = tarballs === undefined ? [] : [...neededBy(named, tarballs)]
  const rest = needed.flatMap((name) => {
    const found = named.includes(name) ? undefined : tarballs?.get(name)
    return found === undefined ? [] : [[name, found.file] as const]
  })
  const overrides = tarballs === undefined ? {} : { overrides: Object.fromEntries(rest) }
  return { ...manifest, name: nameOf(folder), dependencies, devDependencies, ...overrides }
}

function isEmpty(folder: string): boolean {
  try {
    return readdirSync(folder).length === 0
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return true
    throw new CreateError(`${folder} is not a folder that can be used: ${(error as Error).message}`)
  }
}

/**
 * Copies an example into a folder that is new or empty.
 *
 * @param packages - A folder of packed packages that are installed in place of those on npm.
 */
export function copyExample(example: Example, folder: string, packages?: string): void {
  if (!isEmpty(folder))
    throw new CreateError(`${folder} is not empty. Name a new folder, or empty this one.`)
  const manifest = adapt(manifestOf(example.directory), folder, packages)
  mkdirSync(folder, { recursive: true })
  cpSync(example.directory, folder, { recursive: true })
  writeFileSync(join(folder, 'package.json'), `${JSON.stringify(manifest, null, 2)}\n`)
  copyFileSync(join(import.meta.dirname, '../template/AGENTS.md'), join(folder, 'AGENTS.md'))
  // Not in the example: npm leaves such files out of packages.
  writeFileSync(join(folder, '.gitignore'), 'node_modules/\ndist/\nsrc/generated/\n')
}
