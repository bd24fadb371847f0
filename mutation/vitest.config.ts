import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { defineConfig, type ViteUserConfig } from 'vitest/config'

interface Group {
  readonly tests: readonly string[]
  readonly servers: boolean
}

// Set by scripts/mutate.mjs.
const group = JSON.parse(process.env['ONCEWARD_MUTATION_GROUP'] ?? '{}') as Partial<Group>
const conditions = ['@onceward/source', 'node', 'development|production']

const packages = join(import.meta.dirname, '../packages')

interface Manifest {
  readonly name: string
  /** Undefined for a package that is only a command. */
  readonly exports?: Readonly<Record<string, string | { readonly '@onceward/source': string }>>
}

/**
 * Every import of a package of ours, with the source in this copy. The sandbox links the installed node_modules, whose
 * `@onceward` packages are the unchanged ones: a package's tests would not see a mutant of another package.
 */
const alias = readdirSync(packages).flatMap((directory) => {
  const text = readFileSync(join(packages, directory, 'package.json'), 'utf8')
  const { name, exports = {} } = JSON.parse(text) as Manifest
  return Object.entries(exports).flatMap(([path, target]) =>
    typeof target === 'string'
      ? []
      : [
          {
            find: new RegExp(`^${join(name, path)}$`),
            replacement: join(packages, directory, target['@onceward/source']),
          },
        ],
  )
})

const config: ViteUserConfig = defineConfig({
  resolve: { conditions, alias },
  ssr: { resolve: { conditions } },
  test: {
    tags: [{ name: 'nightly' }],
    include: [...(group.tests ?? [])],
    // Its bounds on processor time do not hold for code that counts its own mutants.
    exclude: ['**/nasty-input.test.ts', ...(group.servers ? [] : ['**/*.int.test.ts'])],
    globalSetup: group.servers ? ['./packages/testing/src/vitest/global-setup.ts'] : [],
    // Counting what each test covers makes some take five times as long.
    testTimeout: 60_000,
    hookTimeout: 60_000,
  },
})

export default config
