import type { Mutant } from './mutant.ts'

/** Bugs of guards whose callers wait for the outcome and retry, as clients of an HTTP route do. */
export const CALLER_MUTANTS: readonly Mutant[] = [
  {
    name: 'callers-wait-for-the-lease-of-the-dead',
    trap: 'T19',
    what: 'the lease of a dead process keeps the key of its client in flight',
    isOfCallers: true,
    edits: [
      {
        file: 'run/wait.ts',
        find: 'leases.options.callerRetries !== undefined && isHeldElsewhere(last)',
        replace: 'false',
      },
    ],
  },
  {
    name: 'callers-failures-are-counted',
    trap: 'T3',
    what: 'a request that failed leaves a row that waits for its next attempt',
    isOfCallers: true,
    edits: [
      {
        file: 'transaction/verdict.ts',
        find: 'engine.options.callerRetries !== undefined && pending.counted === undefined',
        replace: 'false',
      },
    ],
  },
  {
    name: 'callers-keep-their-lease',
    trap: 'T3',
    what: 'a request that failed keeps its lease, so its retry is told that it is in flight',
    isOfCallers: true,
    edits: [
      {
        file: 'lease/complete.ts',
        find: ": store.release([held])\n    case 'dead':",
        replace: ": store.renew([held], options.leaseMs)\n    case 'dead':",
      },
    ],
  },
  {
    name: 'callers-get-the-answer-of-another-request',
    trap: 'T29',
    what: 'another payload under a used key gets the stored answer',
    isOfCallers: true,
    edits: [
      {
        file: 'transaction/stored-state.ts',
        find: "known.kind !== 'absent' && isConflict(",
        replace: "known.kind === 'dead' && isConflict(",
      },
    ],
  },
  {
    name: 'callers-lose-their-answer',
    trap: 'T40',
    what: 'the answer is committed without being stored, so a retry gets none',
    isOfCallers: true,
    edits: [
      {
        file: 'transaction/transaction.ts',
        find: 'results: texts, recovered',
        replace: 'results: new Map(), recovered',
      },
    ],
  },
  {
    name: 'callers-answered-before-the-commit',
    trap: 'T35',
    what: 'an unknown commit is taken for one that arrived',
    isOfCallers: true,
    edits: [
      {
        file: 'transaction/transaction.ts',
        find: "return { kind: 'commit-unknown', error: answer.error }",
        replace: 'return undefined',
      },
    ],
  },
]
