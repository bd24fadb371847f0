import type { Mutant } from './mutant.ts'

/** Bugs that the simulation did not see for a long time: of leases alone, of lanes inside a call, of results. */
export const LEASED_MUTANTS: readonly Mutant[] = [
  {
    name: 'leases-failed-is-done',
    trap: 'T3',
    what: 'with leases alone, a run that threw is marked done',
    edits: [
      {
        file: 'lease/complete.ts',
        find: '? store.fail([{ ...held, delayMs: outcome.delayMs }])',
        replace: '? store.complete([held], options.dedupWindowMs)',
      },
    ],
  },
  {
    name: 'leases-run-before-due',
    trap: 'T3',
    what: 'with leases alone, an event that waits for its next attempt runs at once',
    edits: [
      {
        file: 'model/state-machine.ts',
        find: 'const remainingMs = state.notBefore - nowMs',
        replace: 'const remainingMs = 0 * nowMs',
      },
    ],
  },
  {
    name: 'lane-goes-on',
    trap: 'T17',
    what: 'a lane goes on in its call after an event of it was deferred',
    edits: [
      {
        file: 'settlement/outcome.ts',
        find: 'return STOPS_LANE[outcome.kind] || (',
        replace: 'return STOPS_LANE[outcome.kind] === undefined && (',
      },
    ],
  },
  {
    name: 'unread-holds-no-lane',
    trap: 'T17',
    what: 'a message that could not be read, and whose lane only the user knows, holds nothing of its call',
    edits: [
      {
        file: 'receive/receive.ts',
        find: 'return orderingKeyChosen ? ANY_LANE : orderingKey',
        replace: 'return orderingKeyChosen ? undefined : orderingKey',
      },
    ],
  },
  {
    name: 'results-of-others',
    trap: 'T40',
    what: 'an event of a shared transaction gets the result of its neighbour',
    edits: [
      {
        file: 'transaction/transaction.ts',
        find: 'results: texts, recovered',
        replace:
          'results: new Map([...texts.keys()].map((id, at) => [id, [...texts.values()].at(at - 1) as string])), recovered',
      },
    ],
  },
]
