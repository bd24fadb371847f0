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

/** The packed packages in a folder, by name, as specifications that npm understands. */
function packed(folder: string): Readonly<Record<string, string>> {
  const files = existsSync(folder) ? readdirSync(folder) : []
  const found = files.flatMap((file) => {
    const match = /^onceward(?:-([a-z-]+))?-\d.*\.tgz$/.exec(file)
    if (match === null) return []
    const name = match[1] === undefined ? 'onceward' : `@onceward/${match[1]}`
    return [[name, `file:${resolve(folder, file)}`] as const]
  })
  if (found.length === 0) throw new CreateError(`There is no onceward-….tgz in ${folder}.`)
  return Object.fromEntries(found)
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
        const file = tarballs[name]
        if (file === undefined) throw new CreateError(`${name} is not in ${packages}: pack it too.`)
        return [name, file]
      }),
    )
  const dependencies = versioned(manifest.dependencies)
  const devDependencies = versioned(manifest.devDependencies)
  const rest = Object.entries(tarballs ?? {}).filter(
    ([name]) => !(name in dependencies || name in devDependencies),
  )
  // Packages that the project does not name, such as those that the command line needs.
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
