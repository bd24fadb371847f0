import { defineConfig, type ViteUserConfig } from 'vitest/config'

const conditions = ['@onceward/source', 'node', 'development|production']

/** The unit tests of core, which must notice what Stryker changes. */
const config: ViteUserConfig = defineConfig({
  resolve: { conditions },
  ssr: { resolve: { conditions } },
  test: {
    tags: [{ name: 'nightly' }],
    include: ['packages/core/src/**/*.test.ts'],
    // Its limits of processor time do not hold for code that counts which test runs it.
    exclude: ['**/nasty-input.test.ts'],
    testTimeout: 60_000,
  },
})

export default config
