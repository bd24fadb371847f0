/** How an adapter settles, with its broker's own noun and what else of it is covered. */
const adapter = (name, ...more) => ({
  files: ['settle', 'dead-letter', 'handover', ...more].map(
    (file) => `packages/${name}/src/${file}.ts`,
  ),
  tests: [`packages/${name}/src/**/*.test.ts`],
  servers: false,
})

const integration = (name, files) => files.map((file) => `packages/${name}/src/${file}.int.test.ts`)

/**
 * What is mutated, and the tests that must notice: the steps between a delivery and its settlement.
 *
 * The names are those of `npm run mutate -- <group>`.
 */
export const GROUPS = {
  core: {
    files: [
      'machine guard-port run intake inbox-run slice slice-state split part known verdict store-failed',
      'unreleased outcome lease claim complete lease-only leased-run deferrals single-flight publishing',
      'parked breaker identity',
    ]
      .join(' ')
      .split(' ')
      .map((name) => `packages/core/src/${name}.ts`),
    tests: ['packages/core/src/**/*.test.ts'],
    servers: false,
  },
  sqs: adapter('sqs', 'visibility', 'intake', 'loop'),
  kafka: adapter('kafka', 'offsets'),
  amqp: adapter('amqp', 'topology'),
  postgres: {
    files: [
      'inbox',
      'claim',
      'attempts',
      'transaction',
      'handle',
      'held',
      'letters',
      'verdicts',
    ].map((name) => `packages/postgres/src/${name}.ts`),
    // Those of tables, migrations, leases and poolers take minutes and see little of these files.
    tests: [
      'packages/postgres/src/!(*.int).test.ts',
      ...integration('postgres', [
        ...['fence', 'claim', 'commit', 'handle', 'pg', 'kysely'],
        ...['refused', 'registration', 'parked', 'dead-letters', 'conformance'],
      ]),
    ],
    servers: true,
  },
}

/**
 * The tests that must notice a change of mutation/texts.json, which takes words out of the Lua scripts and the SQL:
 * those that notice most, and then the others.
 */
export const TEXT_TESTS = {
  lua: [
    integration('redis', ['lease-store', 'marks']),
    integration('redis', ['model']),
    integration('redis', ['conformance', 'doctor']),
  ],
  sql: [
    integration('postgres', ['conformance', 'parked', 'dead-letters']),
    ['packages/postgres/src'],
  ],
  'sql-leases': [integration('postgres', ['lease-store'])],
}
