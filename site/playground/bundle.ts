// Makes the core and the simulation fit for a browser, in Vite and in Rolldown alike.
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { MUTANTS } from '../../test-e2e/simulation/faults/mutants.ts'

const root = fileURLToPath(new URL('../..', import.meta.url))
const core = join(root, 'packages/core/')
const relay = join(root, 'packages/postgres/')
const beside = (file: string): string => fileURLToPath(new URL(file, import.meta.url))
const node = beside('node.ts')
/** What becomes a copy of its own when a historical bug is put back. */
const COPIED = [core, join(root, 'test-e2e/simulation/'), beside('.')]

interface Context {
  resolve(id: string, importer?: string): Promise<{ readonly id: string } | null>
}

interface Loaded {
  readonly code: string
  readonly moduleType: 'ts'
}

/** As much of a plugin as both bundlers know. */
export interface BrowserCore {
  readonly name: string
  readonly enforce: 'pre'
  resolveId(this: Context, source: string, importer?: string): Promise<string | undefined>
  load(id: string): Loaded | undefined
}

type Exports = Readonly<Record<string, { readonly '@onceward/source': string }>>

/** The sources behind `@onceward/core` and its entries. */
function coreEntry(source: string): string | undefined {
  const manifest: { readonly exports: Exports } = JSON.parse(
    readFileSync(join(core, 'package.json'), 'utf8'),
  )
  const file = manifest.exports[source.replace('@onceward/core', '.')]?.['@onceward/source']
  return file && join(core, file)
}

const bugOf = (id = ''): string | undefined => /\?bug=([\w-]+)$/.exec(id)?.[1]
const fileOf = (id: string): string => id.replace(/\?.*$/, '')

/** The source with the historical bug in it; see `test-e2e/simulation/faults/mutants.ts`. */
function withBug(file: string, bug: string): string {
  const mutant = MUTANTS.find(({ name }) => name === bug)
  if (mutant === undefined) throw new Error(`There is no mutant ${bug}.`)
  const edits = mutant.edits.filter((edit) => file === join(core, 'src', edit.file))
  return edits.reduce(
    (text, { find, replace }) => {
      const parts = text.split(find)
      if (parts.length !== 2) throw new Error(`${file} has ${parts.length - 1} times: ${find}`)
      return parts.join(replace)
    },
    readFileSync(file, 'utf8'),
  )
}

/**
 * Replaces Node by `node.ts` of this folder. An import that ends in `?bug=NAME` gets copies of the core and the simulation
 * with that historical bug.
 */
export function browserCore(): BrowserCore {
  return {
    name: 'browser-core',
    enforce: 'pre',
    async resolveId(source, importer = '') {
      const from = fileOf(importer)
      if (!COPIED.some((folder) => from.startsWith(folder))) return undefined
      if (source.startsWith('node:')) return node
      const resolved = source.startsWith('.')
        ? (await this.resolve(fileOf(source), from))?.id
        : coreEntry(source)
      if (resolved === undefined) return undefined
      if (resolved === join(core, 'src/node.ts')) return node
      if (resolved.startsWith(relay)) return beside('no-relay.ts')
      const bug = bugOf(source) ?? bugOf(importer)
      const isCopied = COPIED.some((folder) => resolved.startsWith(folder))
      return bug === undefined || !isCopied ? resolved : `${resolved}?bug=${bug}`
    },
    load(id) {
      const bug = bugOf(id)
      return bug === undefined ? undefined : { code: withBug(fileOf(id), bug), moduleType: 'ts' }
    },
  }
}
