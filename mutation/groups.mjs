import { readdirSync } from 'node:fs'
import { join, relative } from 'node:path'
import { fileURLToPath } from 'node:url'

const root = fileURLToPath(new URL('..', import.meta.url))
const SOURCE = /(?<!\.test|\.test-d)\.ts$/

/** The sources in a directory of packages and below it, without tests and what only tests use. */
function sourcesIn(directory) {
  return readdirSync(join(root, 'packages', directory), { recursive: true, withFileTypes: true })
    .map((entry) => relative(root, join(entry.parentPath, entry.name)))
    .filter((path) => SOURCE.test(path) && !path.includes('/fixtures/'))
    .toSorted()
}

const inCore = (...rooms) => rooms.flatMap((room) => sourcesIn(`core/src/${room}`))
const without = (files, others) => files.filter((file) => !others.includes(file))
const integration = (name, files) => files.map((file) => `packages/${name}/src/${file}.int.test.ts`)

const adapterRoom = inCore('adapter')
const memory = inCore('memory')
const clients = (name, files) => files.map((file) => `packages/${name}/src/${file}.ts`)

/** What of the test kit its unit tests show. */
const untilAndSkipped = clients('testing', ['until', 'servers/run/server'])

/** Only requests show it. */
const otelHealth = sourcesIn('otel/src/health')

/** What of the command line its unit tests show. */
const commandLine = clients('onceward', [
  ...['failure', 'console/access', 'data/server-findings', 'data/table-findings'],
  ...['data/letters', 'data/event-facts', 'data/troubled', 'data/status'],
  ...['data/story', 'data/next-delivery', 'data/change-letters', 'data/redis-findings'],
  ...['data/broker-address', 'data/broker-findings', 'data/grant-findings', 'console/server'],
  ...['console/api', 'commands/letter-options', 'commands/sweep', 'commands/migrate'],
  ...['commands/dead-letters-read'],
  ...['render/body', 'render/units', 'render/visible', 'render/findings', 'render/letters'],
  ...['render/status', 'render/story', 'render/table'],
])

/** An adapter, by its own tests that need no server. */
const adapter = (name) => ({
  files: sourcesIn(`${name}/src`),
  tests: [`packages/${name}/src/**/*.test.ts`],
  servers: false,
})

/**
 * What is mutated, and the tests that must notice. Every source file of packages is in exactly one group.
 *
 * The names are those of `npm run mutate -- <group>`.
 */
export const GROUPS = {
  core: {
    files: without(sourcesIn('core/src'), [...adapterRoom, ...memory]),
    tests: ['packages/core/src/**/*.test.ts'],
    servers: false,
  },
  memory: {
    files: memory,
    tests: ['packages/core/src/**/*.test.ts', 'packages/testing/src/conformance/*.test.ts'],
    servers: false,
  },
  // The adapters' own tests cover the code that they share.
  adapter: {
    files: adapterRoom,
    tests: ['core/src/adapter', 'sqs/src', 'amqp/src', 'kafka/src'].map(
      (directory) => `packages/${directory}/**/!(*.int).test.ts`,
    ),
    servers: false,
  },
  sqs: adapter('sqs'),
  kafka: adapter('kafka'),
  amqp: adapter('amqp'),
  http: adapter('http'),
  lambda: adapter('lambda'),
  redis: {
    files: sourcesIn('redis/src'),
    tests: ['packages/redis/src/**/*.test.ts'],
    servers: true,
  },
  postgres: {
    files: sourcesIn('postgres/src'),
    // Those of tables, migrations and poolers take minutes and see little of these files.
    tests: [
      'packages/postgres/src/**/!(*.int).test.ts',
      ...integration('postgres', [
        ...['transaction/fence', 'transaction/claim', 'transaction/commit'],
        ...['transaction/refusing-handle', 'pg', 'kysely', 'inbox/refused-messages'],
        ...['driver/short-transaction', 'driver/pool-slots', 'lease-store', 'inbox/retention'],
        ...[
          'inbox/register-consumer',
          'inbox/parked',
          'inbox/figures',
          'dead-letters',
          'conformance',
        ],
      ]),
    ],
    servers: true,
  },
  onceward: {
    files: commandLine,
    tests: ['packages/onceward/src/**/*.test.ts'],
    servers: false,
  },
  'onceward-program': {
    files: without(sourcesIn('onceward/src'), commandLine),
    tests: ['packages/onceward/src/**/*.int.test.ts'],
    servers: true,
    leftOut:
      'Its tests run the program that `npm run build` has made, in which there are no mutants.',
  },
  otel: {
    files: without(sourcesIn('otel/src'), otelHealth),
    tests: ['packages/otel/src/**/*.test.ts'],
    servers: false,
  },
  'otel-health': {
    files: otelHealth,
    tests: ['packages/otel/src/health/**/*.test.ts'],
    servers: true,
  },
  testing: {
    files: untilAndSkipped,
    tests: ['packages/testing/src/**/*.test.ts'],
    servers: false,
  },
  'testing-suites': {
    files: without(sourcesIn('testing/src'), untilAndSkipped),
    tests: ['packages/testing/src/**/*.test.ts'],
    servers: true,
    leftOut:
      'These are tests, and the servers on which tests run. What they notice is counted in the other groups.',
  },
}

/**
 * The tests that must notice a change of mutation/texts.json, which takes words out of the Lua scripts and the SQL:
 * those that notice most, and then the others.
 */
export const TEXT_TESTS = {
  lua: [
    integration('redis', ['lease-store', 'marks', 'hostile-marks']),
    integration('redis', ['model']),
    integration('redis', ['conformance', 'doctor']),
  ],
  sql: [
    integration('postgres', ['conformance', 'inbox/parked', 'dead-letters']),
    ['packages/postgres/src'],
  ],
  'sql-leases': [integration('postgres', ['lease-store'])],
}
