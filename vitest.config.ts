import { existsSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { defineConfig, type ViteUserConfig } from 'vitest/config'
import { BaseSequencer, type TestSpecification } from 'vitest/node'
import { seedOfCommit } from './test-e2e/support/dice.ts'

const conditions = ['@onceward/source', 'node', 'development|production']
const resolution = { resolve: { conditions }, ssr: { resolve: { conditions } } }
const setupFile = './packages/testing/src/vitest/global-setup.ts'
const globalSetup = existsSync(new URL(setupFile, import.meta.url)) ? [setupFile] : []
const setupFiles = ['./packages/testing/src/vitest/properties.ts']
const structure = [
  'test-e2e/repository/structure.test.ts',
  'test-e2e/repository/siblings.test.ts',
  'test-e2e/repository/landing.test.ts',
]

/**
 * Unit tests that need a process of their own: `@hono/node-server` replaces the global `Response`, and `until.test.ts`
 * counts the timers of the process.
 */
const isolated = [
  'packages/testing/src/until.test.ts',
  'packages/http/src/frameworks/*.test.ts',
  'packages/http/src/webhooks/webhook-guard.test.ts',
]

/** Files that a command leaves to another one, named by `scripts/test.mjs`: they need not be loaded to be left out. */
const leftOut = process.env['ONCEWARD_LEFT_OUT']?.split(',') ?? []

/** They load both processors: nothing runs beside them. */
const alone = ['test-e2e/simulation/**/*.test.ts', 'test-e2e/soak/**/*.test.ts']

/**
 * Files that take longest, longest first. Vitest starts large files first in a fresh clone, but the crash tests of a
 * broker are two lines long: started last, one of them runs alone at the end while the other lanes are empty.
 */
const longest = [
  'test-e2e/brokers/kafka/crash.test.ts',
  'test-e2e/brokers/amqp/crash.test.ts',
  'test-e2e/brokers/sqs/crash.test.ts',
  'test-e2e/crash/rounds.test.ts',
  'test-e2e/fuzz/',
  'test-e2e/behaviour/brokers/',
  'test-e2e/http/',
  'test-e2e/behaviour/',
  'test-e2e/repository/demo.test.ts',
  'test-e2e/incidents/',
  'packages/postgres/src/transaction/claim.int.test.ts',
  'packages/kafka/',
  'dead-letter-place.int.test.ts',
]

class LongestFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const rankOf = ({ moduleId }: TestSpecification): number => {
      const rank = longest.findIndex((name) => moduleId.includes(name))
      return rank < 0 ? longest.length : rank
    }
    return (await super.sort(files)).toSorted((a, b) => rankOf(a) - rankOf(b))
  }
}

const unit = {
  setupFiles: [...setupFiles, './packages/testing/src/vitest/process-lock.ts'],
  testTimeout: 20_000,
  sequence: { groupOrder: 0 },
}
/** A busy machine takes ten times as long. Only a test that fails waits so long. */
const endToEnd = { globalSetup, setupFiles, testTimeout: 300_000, hookTimeout: 300_000 }

const config: ViteUserConfig = defineConfig({
  ...resolution,
  test: {
    maxWorkers: 2,
    sequence: { sequencer: LongestFirst },
    // Tests start hundreds of processes and workers of the same modules, which share their compiled code.
    env: {
      NODE_COMPILE_CACHE: join(tmpdir(), 'onceward-e2e-compiled'),
      ONCEWARD_COMMIT_SEED: String(seedOfCommit()),
    },
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
          exclude: ['**/*.int.test.ts', ...isolated, ...leftOut],
          ...unit,
          // The files share a process, so that each module is loaded once: a quarter of the processor time.
          isolate: false,
        },
      },
      { ...resolution, test: { name: 'unit-isolated', include: isolated, ...unit } },
      // From here on, files mostly wait: three at a time, each with servers, ports and directories of its own.
      {
        ...resolution,
        test: {
          name: 'int',
          include: ['packages/**/src/**/*.int.test.ts'],
          exclude: leftOut,
          globalSetup,
          setupFiles,
          maxWorkers: 3,
          // The files of a lane share a process, its modules and its Kafka.
          isolate: false,
          // Twice what `until` waits, so that its error says what was awaited.
          testTimeout: 240_000,
          hookTimeout: 240_000,
          sequence: { groupOrder: 1 },
        },
      },
      {
        ...resolution,
        test: {
          ...endToEnd,
          name: 'e2e',
          include: ['test-e2e/**/*.test.ts'],
          exclude: [...structure, ...alone, ...leftOut],
          maxWorkers: 3,
          sequence: { groupOrder: 1 },
        },
      },
      {
        ...resolution,
        test: {
          ...endToEnd,
          name: 'e2e-alone',
          include: alone,
          exclude: leftOut,
          fileParallelism: false,
          sequence: { groupOrder: 2 },
        },
      },
    ],
  },
})

export default config
