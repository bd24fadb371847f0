import type { Bug } from './bug.ts'

const EFFECTS = 'test-e2e/behaviour/traps/effects.test.ts'
const ALONE = 'test-e2e/behaviour/traps/alone.test.ts'
const CONFORMANCE = 'packages/postgres/src/conformance.int.test.ts'
const CRASHES = 'test-e2e/brokers/sqs/crash.test.ts'

/** Of runs, their attempts and dead letters: T9 to T26. */
export const RUN_BUGS: readonly Bug[] = [
  {
    trap: 'T9',
    what: "a unique violation of the business's own is taken for a duplicate",
    edits: [
      {
        file: 'packages/core/src/transaction/verdict.ts',
        find: 'const { error, transaction } = failed',
        replace:
          "const { error, transaction } = failed\n  if ((error as { code?: string } | undefined)?.code === '23505') return transaction?.rollback().then(() => ({ kind: 'duplicate' }) as const)",
      },
    ],
    foundBy: {
      file: EFFECTS,
      title: 'trap T9: a unique violation of the business is a failure, not a duplicate',
    },
  },
  {
    trap: 'T10',
    what: 'a COMMIT that is answered by ROLLBACK counts as committed',
    edits: [
      {
        file: 'packages/postgres/src/transaction/business-transaction.ts',
        find: "case 'failed':\n        return new RetryableError(SWALLOWED_STATEMENT)",
        replace: "case 'failed':\n        return undefined",
      },
      {
        file: 'packages/postgres/src/transaction/business-transaction.ts',
        find: "if (answer.command === 'ROLLBACK') {",
        replace: "if (answer.command === 'none') {",
      },
    ],
    foundBy: {
      file: 'packages/postgres/src/transaction/commit.int.test.ts',
      title: 'trap T10: commits nothing after a swallowed failure of a statement, and reports that',
    },
  },
  {
    trap: 'T11',
    what: 'a 40001 is charged as an attempt of the event',
    edits: [
      {
        file: 'packages/core/src/transaction/after-failure.ts',
        find: 'MOST_SERIALIZATION_RETRIES = 5',
        replace: 'MOST_SERIALIZATION_RETRIES = 0',
      },
    ],
    foundBy: {
      file: EFFECTS,
      title: 'trap T11: events with serialization failures run again, and no attempt is counted',
    },
  },
  {
    trap: 'T12',
    what: 'duplicates wait for the row without a bound, and drain the pool',
    edits: [
      {
        file: 'packages/postgres/src/transaction/claim.ts',
        find: 'lockMs: setting(Math.min(waitMs, budgetMs))',
        replace: 'lockMs: setting(Math.max(waitMs, budgetMs))',
      },
    ],
    foundBy: {
      file: 'packages/postgres/src/transaction/claim.int.test.ts',
      title: 'waits at most its bound for an event in flight, and leaves nothing open',
    },
  },
  {
    trap: 'T13',
    what: 'messages without a key and lease-only events run beside an event that must run alone',
    edits: [
      {
        file: 'packages/core/src/run/permit.ts',
        find: 'const hold = alone.tryShared() ?? (await alone.shared({ stop: signals.whenStopping }))',
        replace: 'const hold = (): void => undefined',
      },
    ],
    foundBy: {
      file: ALONE,
      title:
        'trap T13: no other guard of the process runs a message beside an event that runs alone',
    },
  },
  {
    trap: 'T13',
    what: 'an event that must run alone waits without a bound, and everything behind it with it',
    edits: [
      {
        file: 'packages/core/src/transaction/batch.ts',
        find: 'await alone.exclusive({ stop, limit: { runtime: options.runtime, ms: ALONE_WAIT_MS } })',
        replace: 'await alone.exclusive({ stop })',
      },
    ],
    foundBy: {
      file: ALONE,
      title:
        'trap T13: an event that waits to run alone is deferred, and the runs behind it continue',
    },
  },
  {
    trap: 'T13',
    what: 'attempts are counted inside the transaction, and a poison that kills the process is never counted',
    edits: [
      {
        file: 'packages/core/src/transaction/pending-event.ts',
        find: "member.suspect ? 'suspect' : 'fresh'",
        replace: "member.suspect ? 'fresh' : 'fresh'",
      },
    ],
    foundBy: {
      file: 'test-e2e/behaviour/poison/company.test.ts',
      title: 'only the poison message dies when it stands first',
    },
  },
  {
    trap: 'T26',
    what: 'a publisher that answers late marks the dead letter of a later death as published',
    edits: [
      {
        file: 'packages/postgres/src/statements/dead-letters.ts',
        find: 'where event_id = $1::text::uuid and publisher = $2::text::uuid',
        replace: 'where event_id = $1::text::uuid and $2::text is not null',
      },
    ],
    foundBy: {
      file: CONFORMANCE,
      title: 'that died again is published again, whatever a publisher of its first death says',
    },
  },
  {
    trap: 'T26',
    what: 'the right to publish does not expire, and its owner has died',
    edits: [
      {
        file: 'packages/postgres/src/statements/dead-letters.ts',
        find: `coalesce(\${row}.publish_until > clock_timestamp() and \${row}.publish_until <= clock_timestamp() + \${LONGEST_RIGHT}, false)`,
        replace: `\${row}.publish_until is not null`,
      },
    ],
    foundBy: {
      file: CONFORMANCE,
      title: 'ends by the clock of the store, and then the next one takes it',
    },
  },
  {
    trap: 'T26',
    what: 'the dead letter is marked as published before the broker was asked',
    edits: [
      {
        file: 'packages/postgres/src/statements/dead-letters.ts',
        find: 'export const takenRight = `publisher',
        replace: 'export const takenRight = `published = true, publisher',
      },
    ],
    foundBy: { file: CRASHES, title: "while burying, before the broker's dead letter" },
  },
  {
    trap: 'T26',
    what: 'an operator replays an event whose dead letter is being published',
    edits: [
      {
        file: 'packages/postgres/src/statements/operator.ts',
        find: `not \${isBeingPublished(row)} and not`,
        replace: 'not',
      },
    ],
    foundBy: {
      file: CONFORMANCE,
      title: 'keeps a replay away until its time is over, and a replay ends it for good',
    },
  },
]
