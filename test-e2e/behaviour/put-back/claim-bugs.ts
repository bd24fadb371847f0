import type { Bug } from './bug.ts'

const CLAIMS = 'test-e2e/behaviour/traps/claims.test.ts'
const CONFORMANCE = 'packages/postgres/src/conformance.int.test.ts'
const CRASHES = 'test-e2e/brokers/sqs/crash.test.ts'

/** Of claims and their copies: T1 to T8. */
export const CLAIM_BUGS: readonly Bug[] = [
  {
    trap: 'T1',
    what: 'a timeout on the dedup insert is taken for a duplicate',
    edits: [
      {
        file: 'packages/core/src/transaction/batch.ts',
        find: "deferHeld(batch, members, 'held-by-row')",
        replace: "for (const pending of members) endEvent(batch, pending, { kind: 'duplicate' })",
      },
    ],
    foundBy: {
      file: CLAIMS,
      title: 'trap T1: a timeout on the dedup insert is not a duplicate',
    },
  },
  {
    trap: 'T2',
    what: 'the state is part of the primary key, so a redelivery after done is inserted beside it',
    edits: [
      {
        file: 'packages/postgres/src/sql/000001-inbox.ts',
        find: 'create table :"schema".processed_events (\n  event_id uuid primary key,',
        replace:
          'create table :"schema".processed_events (\n  primary key (event_id, state), event_id uuid not null,',
      },
    ],
    foundBy: {
      file: CLAIMS,
      title: 'trap T2: redeliveries of a done event find it done, whatever the state was before',
    },
  },
  {
    trap: 'T3',
    what: 'the handler throws, and its redelivery is dropped inside the window',
    edits: [
      {
        file: 'packages/postgres/src/statements/verdicts.ts',
        find: "freshAndChanged(schema, 'w')",
        replace: "freshAndChanged(schema, 'd' as 'w')",
      },
    ],
    foundBy: { file: CRASHES, title: "after `fail`, before the broker's defer" },
  },
  {
    trap: 'T4',
    what: 'the mark is committed before the handler runs, and the process dies in between',
    edits: [
      {
        file: 'packages/postgres/src/pg-driver.ts',
        find: '...claim, behind]',
        replace: "...claim, 'commit', 'begin', behind]",
      },
      {
        file: 'packages/postgres/src/pg-driver.ts',
        find: '...claim, restore]',
        replace: "...claim, 'commit', 'begin', `set local lock_timeout = 0`]",
      },
    ],
    foundBy: { file: CRASHES, title: 'inside the transaction' },
  },
  {
    trap: 'T5',
    what: 'an owner that was paused between its claim and its transaction runs after its successor',
    edits: [
      {
        file: 'packages/postgres/src/transaction/claim-sql.ts',
        find: ` and f.token \${EQUALS} o.owner for update of f`,
        replace: ' for update of f',
      },
    ],
    foundBy: {
      file: 'packages/postgres/src/transaction/fence.int.test.ts',
      title: 'is lost: the claim of the business transaction',
    },
  },
  {
    trap: 'T5',
    what: 'whoever asks may complete a lease, also after a takeover',
    edits: [
      {
        file: 'packages/redis/src/lua/state.ts',
        find: "state.kind == 'p' and state.owner == owner",
        replace: "state.kind == 'p'",
      },
    ],
    foundBy: {
      file: 'packages/redis/src/model.int.test.ts',
      title: 'redisLeases answers random commands as the state machine does',
    },
  },
  {
    trap: 'T6',
    what: 'staleness is measured from the first failure, so a live owner looks stale',
    edits: [
      {
        file: 'packages/postgres/src/statements/attempts.ts',
        find: 'counted_at = excluded.counted_at,\n    alone',
        replace: 'counted_at = f.first_failed_at,\n    alone',
      },
    ],
    foundBy: {
      file: 'packages/postgres/src/inbox/model.int.test.ts',
      title: 'pgInbox answers random statements as the memory inbox does',
    },
  },
  {
    trap: 'T6',
    what: 'an event that is running is claimed again at once',
    edits: [
      {
        file: 'packages/core/src/model/attempt-machine.ts',
        find: 'return Math.abs(ageMs) < YOUNG_MS',
        replace: 'return ageMs < 0',
      },
    ],
    foundBy: {
      file: CONFORMANCE,
      title: 'does not touch an event that was counted less than five seconds ago',
    },
  },
  {
    trap: 'T7',
    what: 'two copies run at once, and both succeed',
    edits: [
      {
        file: 'packages/postgres/src/transaction/claim-sql.ts',
        find: `on conflict (event_id) do nothing\${target.returning}`,
        replace: `on conflict (event_id) do update set processed_at = excluded.processed_at\${target.returning}`,
      },
    ],
    foundBy: { file: CLAIMS, title: 'trap T7: of two concurrent copies one has an effect' },
  },
  {
    trap: 'T8',
    what: 'the copy of an event in flight is acknowledged, and the first attempt fails',
    edits: [
      {
        file: 'packages/core/src/settlement/outcome.ts',
        find: "'in-progress': (outcome, runtime) => defer('in-progress', outcome, runtime)",
        replace: "'in-progress': () => ({ kind: 'ack', by: 'duplicate' })",
      },
    ],
    foundBy: {
      file: CLAIMS,
      title: 'trap T8: a copy of an event in flight is not acked before the first one has ended',
    },
  },
]
