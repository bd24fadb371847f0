import { CALLER_MUTANTS } from './caller-mutants.ts'
import { LEASED_MUTANTS } from './leased-mutants.ts'

import type { Mutant } from './mutant.ts'

export const MUTANTS: readonly Mutant[] = [
  {
    name: 'T1-timeout-is-duplicate',
    trap: 'T1',
    what: 'a timeout on the dedup insert is taken for a duplicate',
    edits: [
      {
        file: 'transaction/batch.ts',
        find: "deferHeld(batch, members, 'held-by-row')",
        replace: "for (const pending of members) endEvent(batch, pending, { kind: 'duplicate' })",
      },
    ],
  },
  {
    name: 'T2-done-is-accepted-again',
    trap: 'T2',
    what: 'the state is part of the key, so a redelivery after done is inserted beside it',
    edits: [
      {
        file: 'memory/transaction.ts',
        find: 'row !== undefined && !isChanging',
        replace: "row !== undefined && row.state !== 'done' && !isChanging",
      },
      {
        file: 'memory/transaction.ts',
        find: '? row === undefined',
        replace: "? row === undefined || row.state === 'done'",
      },
    ],
  },
  {
    name: 'T3-failed-is-remembered-as-done',
    trap: 'T3',
    what: 'the handler throws, and its redelivery is dropped inside the window',
    edits: [
      {
        file: 'model/attempt-machine.ts',
        find: "const kind = 'waiting' as const",
        replace: "const kind = 'done' as 'waiting'",
      },
    ],
  },
  {
    name: 'T4-mark-before-effect',
    trap: 'T4',
    what: 'the mark is committed before the handler runs, and the process dies in between',
    edits: [
      {
        file: 'memory/transaction.ts',
        find: 'if (isClaimable) this.claimed.set(event.id, event)\n',
        replace:
          "if (isClaimable) rows.set(event.id, { state: 'done', consumer: this.#session.consumer, fingerprint: event.fingerprint, processedAtMs: 0 }), this.claimed.set(event.id, event)\n",
      },
    ],
  },
  {
    name: 'T5-paused-owner-commits',
    trap: 'T5',
    what: 'an owner that was paused between its claim and its transaction runs after its successor',
    edits: [
      {
        file: 'memory/transaction.ts',
        find: "row?.state === 'running' && troubles.get(event.id)?.token === token",
        replace: 'row !== undefined',
      },
      {
        file: 'model/attempt-machine.ts',
        find: 'LATEST_START_MS: number = YOUNG_MS - START_MARGIN_MS',
        replace: 'LATEST_START_MS: number = 4_000_000',
      },
    ],
  },
  {
    name: 'T5-fence-of-the-lease',
    trap: 'T5',
    what: 'whoever asks may complete a lease, also after a takeover',
    edits: [
      {
        file: 'model/state-machine.ts',
        find: 'state.owner === command.ownerToken\n      ? { state: step',
        replace: 'state.owner !== undefined\n      ? { state: step',
      },
    ],
  },
  {
    name: 'T6-staleness-from-the-first-attempt',
    trap: 'T6',
    what: 'staleness is measured from the first attempt, so a live owner looks stale',
    isSlow: true,
    edits: [
      {
        file: 'model/attempt-machine.ts',
        find: 'countedAtMs: nowMs }',
        replace: 'countedAtMs: before.countedAtMs || nowMs }',
      },
    ],
  },
  {
    name: 'T6-no-age-at-all',
    trap: 'T6',
    what: 'an event that is running is claimed again at once',
    edits: [
      {
        file: 'model/attempt-machine.ts',
        find: 'return Math.abs(ageMs) < YOUNG_MS',
        replace: 'return ageMs < 0',
      },
    ],
  },
  {
    name: 'T7-two-at-once',
    trap: 'T7',
    what: 'two copies run at once, and both succeed',
    edits: [
      {
        file: 'memory/tables.ts',
        find: 'if (held !== undefined) return held.holder === holder',
        replace: 'if (held !== undefined) return true',
      },
    ],
  },
  {
    name: 'T8-in-flight-is-acked',
    trap: 'T8',
    what: 'the copy of an event in flight is acknowledged, and the first attempt fails',
    edits: [
      {
        file: 'settlement/outcome.ts',
        find: "'in-progress': (outcome, runtime) => defer('in-progress', outcome, runtime)",
        replace: "'in-progress': () => ({ kind: 'ack', by: 'duplicate' })",
      },
    ],
  },
  {
    name: 'T9-any-23505-is-a-duplicate',
    trap: 'T9',
    what: "a unique violation of the business's own is taken for a duplicate",
    edits: [
      {
        file: 'transaction/verdict.ts',
        find: 'const { error, transaction } = failed',
        replace:
          "const { error, transaction } = failed\n  if ((error as { code?: string } | undefined)?.code === '23505') return transaction?.rollback().then(() => ({ kind: 'duplicate' }) as const)",
      },
    ],
  },
  {
    name: 'T10-commit-that-rolled-back',
    trap: 'T10',
    what: 'a COMMIT that is answered by ROLLBACK counts as committed',
    edits: [
      {
        file: 'transaction/transaction.ts',
        find: "return { kind: 'handler', pending, error: new RetryableError(SWALLOWED_STATEMENT) }",
        replace: 'return undefined',
      },
      {
        file: 'transaction/transaction.ts',
        find: ': failedStatement(running, { error: answer.error }, undefined)',
        replace: ': undefined',
      },
    ],
  },
  {
    name: 'T11-serialization-is-an-attempt',
    trap: 'T11',
    what: 'a 40001 is charged as an attempt of the event',
    edits: [
      {
        file: 'transaction/after-failure.ts',
        find: 'MOST_SERIALIZATION_RETRIES = 5',
        replace: 'MOST_SERIALIZATION_RETRIES = 0',
      },
    ],
  },
  {
    name: 'T12-waits-without-end',
    trap: 'T12',
    what: 'duplicates wait for the row without a bound, and drain the pool',
    edits: [
      {
        file: 'transaction/batch.ts',
        find: 'waitMs: singleWaitMs ?? perRow',
        replace: 'waitMs: 1_000 * (singleWaitMs ?? perRow)',
      },
    ],
  },
  {
    name: 'T13-keyless-beside-alone',
    trap: 'T13',
    what: 'messages without a key and lease-only events run beside an event that must run alone',
    edits: [
      {
        file: 'run/permit.ts',
        find: 'const hold = alone.tryShared() ?? (await alone.shared({ stop: signals.whenStopping }))',
        replace: 'const hold = (): void => undefined',
      },
    ],
  },
  {
    name: 'T13-alone-waits-without-end',
    trap: 'T13',
    what: 'an event that must run alone waits without a bound, and everything behind it with it',
    edits: [
      {
        file: 'transaction/batch.ts',
        find: 'await alone.exclusive({ stop, limit: { runtime: options.runtime, ms: ALONE_WAIT_MS } })',
        replace: 'await alone.exclusive({ stop })',
      },
    ],
  },
  {
    name: 'T13-attempts-roll-back',
    trap: 'T13',
    what: 'attempts are counted inside the transaction, and a poison that kills the process is never counted',
    edits: [
      {
        file: 'transaction/pending-event.ts',
        find: "member.suspect ? 'suspect' : 'fresh'",
        replace: "member.suspect ? 'fresh' : 'fresh'",
      },
    ],
  },
  {
    name: 'T26-late-publisher-marks',
    trap: 'T26',
    what: 'a publisher that answers late marks the dead letter of a later death as published',
    isSlow: true,
    edits: [
      {
        file: 'memory/store.ts',
        find: "if (this.#publicationOf(ref)?.publishing?.token !== token) return 'lost'",
        replace: "if (this.#publicationOf(ref) === undefined) return 'lost'",
      },
    ],
  },
  {
    name: 'T26-right-without-end',
    trap: 'T26',
    what: 'the right to publish does not expire, and its owner has died',
    edits: [
      {
        file: 'model/attempt-machine.ts',
        find: 'publishing !== undefined && publishing.untilMs > nowMs',
        replace: 'publishing !== undefined',
      },
    ],
  },
  {
    name: 'T26-published-before-the-call',
    trap: 'T26',
    what: 'the dead letter is marked as published before the broker was asked',
    edits: [
      {
        file: 'memory/store.ts',
        find: 'this.#change(ref, { publishing: {',
        replace: 'this.#change(ref, { published: true, publishing: {',
      },
    ],
  },
  {
    name: 'T26-replay-beside-the-publisher',
    trap: 'T26',
    what: 'an operator replays an event whose dead letter is being published',
    edits: [
      {
        file: 'memory/store.ts',
        find: ' || isBeingPublished(publication, nowMs)) return false',
        replace: ') return false',
      },
    ],
  },
  {
    name: 'T35-acked-without-its-reply',
    trap: 'T35',
    what: 'afterCommit throws, and the message is acked',
    edits: [
      {
        file: 'run/after-commit.ts',
        find: 'return failed(processing, { member, outcome }, toReadableError(thrown))',
        replace:
          'return thrown === undefined ? failed(processing, { member, outcome }, thrown) : outcome',
      },
    ],
  },
  {
    name: 'T35-acked-before-its-items',
    trap: 'T35',
    what: 'a message is acked whatever became of its items',
    edits: [
      {
        file: 'settlement/observe-parts.ts',
        find: 'observe(whole, wholeOutcome(last), { isReported: true })',
        replace: "observe(whole, { kind: 'duplicate' }, { isReported: true })",
      },
    ],
  },
  ...LEASED_MUTANTS,
  ...CALLER_MUTANTS,
]
