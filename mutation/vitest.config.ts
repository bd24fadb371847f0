import { defineConfig, type ViteUserConfig } from 'vitest/config'

interface Group {
  readonly tests: readonly string[]
  readonly servers: boolean
}

// Set by scripts/mutate.mjs.
const group = JSON.parse(process.env['ONCEWARD_MUTATION_GROUP'] ?? '{}') as Partial<Group>
const conditions = ['@onceward/source', 'node', 'development|production']

const config: ViteUserConfig = defineConfig({
  resolve: { conditions },
  ssr: { resolve: { conditions } },
  test: {
    tags: [{ name: 'nightly' }],
    include: [...(group.tests ?? [])],
    exclude: group.servers ? [] : ['**/*.int.test.ts'],
    globalSetup: group.servers ? ['./packages/testing/src/vitest/global-setup.ts'] : [],
    testTimeout: group.servers ? 60_000 : 20_000,
    hookTimeout: group.servers ? 60_000 : 10_000,
  },
})

export default config
