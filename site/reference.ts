// `npm run site` runs this before it builds the pages: one page for each entry that users import, from its comments.
import { existsSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { Application, Converter, type TypeDocOptions } from 'typedoc'
import type { PluginOptions } from 'typedoc-plugin-markdown'

const here = fileURLToPath(new URL('.', import.meta.url))
const packages = join(here, '../packages')

/** `testing` serves this repository's tests, `onceward` is a program. */
const PACKAGES = readdirSync(packages).filter(
  (name) => name !== 'testing' && name !== 'onceward' && existsSync(join(packages, name, 'src')),
)

interface Manifest {
  readonly name: string
  readonly exports?: Readonly<Record<string, { readonly '@onceward/source': string }>>
}

/** What users import, and the file it is. */
const ENTRIES: readonly (readonly [name: string, file: string])[] = PACKAGES.flatMap((name) => {
  const manifest: Manifest = JSON.parse(readFileSync(join(packages, name, 'package.json'), 'utf8'))
  return Object.entries(manifest.exports ?? {}).map(
    ([entry, { '@onceward/source': file }]) =>
      [join(manifest.name, entry), join(packages, name, file)] as const,
  )
})

const OPTIONS: Partial<TypeDocOptions & PluginOptions> = {
  entryPoints: ENTRIES.map(([, file]) => file),
  tsconfig: join(here, 'tsconfig.reference.json'),
  plugin: ['typedoc-plugin-markdown'],
  out: join(here, 'reference'),
  name: 'API reference',
  readme: 'none',
  logLevel: 'Error',
  // `npm test` checks the types, with the compiler that the repository pins.
  skipErrorChecking: true,
  disableSources: true,
  excludeInternal: true,
  // What a client library brings along, with links into a documentation that is not here.
  excludeExternals: true,
  outputFileStrategy: 'modules',
  entryFileName: 'index',
  hideBreadcrumbs: true,
  hidePageHeader: true,
  useCodeBlocks: true,
  parametersFormat: 'table',
  interfacePropertiesFormat: 'table',
}

rmSync(join(here, 'reference'), { recursive: true, force: true })
const app = await Application.bootstrapWithPlugins(OPTIONS)
app.converter.on(Converter.EVENT_RESOLVE_BEGIN, ({ project }) => {
  // The modules are in the order of the entries.
  for (const [index, module] of (project.children ?? []).entries()) {
    module.name = ENTRIES[index]?.[0] ?? module.name
  }
})
const project = await app.convert()
if (project === undefined) throw new Error('TypeDoc cannot read the packages.')
await app.generateOutputs(project)
