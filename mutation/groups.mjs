/** How an adapter settles, with its broker's own noun and what else of it is covered. */
const adapter = (name, ...more) => ({
  files: ['settle', 'dead-letter', ...more].map((file) => `packages/${name}/src/${file}.ts`),
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
      'model/attempt-rules model/state-machine guard/running-guard guard/process guard/receive',
      'guard/with-inbox guard/unguarded guard/without-inbox guard/parked guard/copies',
      'guard/processing guard/take-off guard/take-slot transaction/batch transaction/batch-state',
      'transaction/bisect transaction/transaction transaction/transaction-end transaction/stored-state transaction/verdict',
      'transaction/after-failure transaction/bisect-queue transaction/release-later settlement/outcome settlement/retry-rule transaction/pending-event',
      'settlement/publish-dead-letter settlement/place-calls lease/renew lease/claim lease/complete concurrency/backoff',
      'concurrency/in-flight concurrency/alone-lock concurrency/breaker identity/identify',
    ]
      .join(' ')
      .split(' ')
      .map((name) => `packages/core/src/${name}.ts`),
    tests: ['packages/core/src/**/*.test.ts'],
    servers: false,
  },
  // The adapters' own tests cover the code that they share.
  adapter: {
    files: ['delivery-buffer', 'ordering', 'recovery'].map(
      (name) => `packages/core/src/adapter/${name}.ts`,
    ),
    tests: ['core/src/adapter', 'sqs/src', 'amqp/src', 'kafka/src'].map(
      (directory) => `packages/${directory}/**/!(*.int).test.ts`,
    ),
    servers: false,
  },
  sqs: adapter('sqs', 'visibility', 'dispatch', 'receive'),
  kafka: adapter('kafka', 'dispatch', 'offsets'),
  amqp: adapter('amqp', 'topology'),
  postgres: {
    files: [
      'inbox/inbox',
      'transaction/claim',
      'inbox/attempts',
      'transaction/business-transaction',
      'transaction/refusing-handle',
      'driver/held-connection',
      'inbox/publish-dead-letter',
      'inbox/verdicts',
    ].map((name) => `packages/postgres/src/${name}.ts`),
    // Those of tables, migrations, leases and poolers take minutes and see little of these files.
    tests: [
      'packages/postgres/src/**/!(*.int).test.ts',
      ...integration('postgres', [
        ...['transaction/fence', 'transaction/claim', 'transaction/commit'],
        ...['transaction/refusing-handle', 'pg', 'kysely', 'inbox/refused-messages'],
        ...['inbox/register-consumer', 'inbox/parked', 'dead-letters', 'conformance'],
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
