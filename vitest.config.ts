import { existsSync } from 'node:fs'
import { defineConfig, type ViteUserConfig } from 'vitest/config'

const conditions = ['@onceward/source', 'node', 'development|production']
const resolution = { resolve: { conditions }, ssr: { resolve: { conditions } } }
const setupFile = './packages/testing/src/vitest/global-setup.ts'
const globalSetup = existsSync(new URL(setupFile, import.meta.url)) ? [setupFile] : []
const structure = ['test-e2e/repository/structure.test.ts', 'test-e2e/repository/siblings.test.ts']

const config: ViteUserConfig = defineConfig({
  ...resolution,
  test: {
    maxWorkers: 2,
    projects: [
      {
        ...resolution,
        test: {
          name: 'unit',
          include: ['packages/*/src/**/*.test.ts', ...structure],
          exclude: ['**/*.int.test.ts'],
          testTimeout: 20_000,
          sequence: { groupOrder: 0 },
        },
      },
      {
        ...resolution,
        test: {
          name: 'int',
          include: ['packages/**/src/**/*.int.test.ts'],
          globalSetup,
          testTimeout: 60_000,
          hookTimeout: 60_000,
          sequence: { groupOrder: 1 },
        },
      },
      {
        ...resolution,
        test: {
          name: 'e2e',
          include: ['test-e2e/**/*.test.ts'],
          exclude: structure,
          globalSetup,
          testTimeout: 180_000,
          hookTimeout: 180_000,
          // Kills and timeouts of one file must not starve another on a small machine.
          fileParallelism: false,
          sequence: { groupOrder: 2 },
        },
      },
    ],
  },
})

export default config
