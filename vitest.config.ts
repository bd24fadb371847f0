import { existsSync } from 'node:fs'
import { defineConfig, type ViteUserConfig } from 'vitest/config'

const conditions = ['@onceward/source', 'node', 'development|production']
const resolution = { resolve: { conditions }, ssr: { resolve: { conditions } } }
const setupFile = './packages/testing/src/vitest/global-setup.ts'
const globalSetup = existsSync(new URL(setupFile, import.meta.url)) ? [setupFile] : []
const structure = [
  'test-e2e/repository/structure.test.ts',
  'test-e2e/repository/siblings.test.ts',
  'test-e2e/repository/mutation.test.ts',
  'test-e2e/repository/landing.test.ts',
]

/** They load both processors, or read the process list of the machine: nothing runs beside them. */
const alone = [
  'test-e2e/simulation/**/*.test.ts',
  'test-e2e/soak/**/*.test.ts',
  'test-e2e/repository/demo.test.ts',
]

const endToEnd = { globalSetup, testTimeout: 180_000, hookTimeout: 180_000 }

const config: ViteUserConfig = defineConfig({
  ...resolution,
  test: {
    maxWorkers: 2,
    tags: [
      {
        name: 'nightly',
        description:
          'Left to `npm run nightly`: a stronger test covers it, or it takes too long for every change.',
      },
    ],
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
      // From here on, files mostly wait: three at a time, each with servers, ports and directories of its own.
      {
        ...resolution,
        test: {
          name: 'int',
          include: ['packages/**/src/**/*.int.test.ts'],
          globalSetup,
          maxWorkers: 3,
          testTimeout: 60_000,
          hookTimeout: 60_000,
          sequence: { groupOrder: 1 },
        },
      },
      {
        ...resolution,
        test: {
          ...endToEnd,
          name: 'e2e',
          include: ['test-e2e/**/*.test.ts'],
          exclude: [...structure, ...alone],
          maxWorkers: 3,
          sequence: { groupOrder: 2 },
        },
      },
      {
        ...resolution,
        test: {
          ...endToEnd,
          name: 'e2e-alone',
          include: alone,
          fileParallelism: false,
          sequence: { groupOrder: 3 },
        },
      },
    ],
  },
})

export default config
