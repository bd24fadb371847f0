import { attempts } from './attempts.ts'
import type { AttemptsFaults, AttemptsRules, AttemptsWorld, Behaviour } from './attempts-state.ts'
import { explore } from './explore.ts'
import type { World } from './world.ts'

const NO_FAULTS: AttemptsFaults = {
  ...{ crash: 0, duplicate: 0, fail: 0, lost: 0, drain: 0 },
  ...{ replay: 0, expire: 0, flush: 0, late: 0, leasesDown: 0, clock: 0 },
}

/** What the first design had. */
export const FIRST: AttemptsRules = {
  ...{ rechecks: true, compares: 'state', resetsPublished: true },
  ...{ trustsYoung: false, trustsAhead: false, countsInTransaction: false, claimsAttempt: false },
  ...{ locksToVerdict: false, boundsWait: false, countsBeforeWait: false },
  ...{ pollerPublishes: false, keepsParked: false, publishesLocked: false },
  ...{ replaysPublished: false, rereadsLetter: false, replaysAlone: false, locksOther: false },
  ...{ buriesLost: false, trustsAnyRow: false },
  ...{ leasesCount: false, leasesKeepDead: false, takesLeaseAttempt: false },
  ...{ parksKnown: true, parksOpen: true },
  ...{ chains: false, readsTag: true, keepsDefers: true },
}
export const YOUNG: AttemptsRules = { ...FIRST, trustsYoung: true }
export const POLLED: AttemptsRules = { ...YOUNG, pollerPublishes: true }
export const FIXED: AttemptsRules = {
  ...FIRST,
  ...{ compares: 'token', locksToVerdict: true, boundsWait: true },
  ...{ pollerPublishes: true, keepsParked: true, publishesLocked: true },
}
/** What design.md asks for. */
export const TEXT: AttemptsRules = { ...FIXED, trustsYoung: true }
/** The same, and a text that commits an event begins the next one. */
export const CHAINED: AttemptsRules = { ...TEXT, chains: true }
/** The count under the row lock instead of the five-second rule: correct, too. */
export const LOCKED: AttemptsRules = { ...FIXED, countsInTransaction: true }

const BEHAVIOURS: Readonly<{ [letter: string]: Behaviour }> = {
  ...{ O: 'ok', f: 'flaky', F: 'fails', T: 'fatal', K: 'kills', W: 'waits', d: 'defers' },
}

/** How a world differs from two processes that run one delivery each. */
type Shape = Partial<Omit<AttemptsWorld, 'events' | 'rules' | 'faults'>>

/** `events` are letters of {@link BEHAVIOURS}. */
export function world(
  name: string,
  events: string,
  rules: AttemptsRules,
  faults: Partial<AttemptsFaults>,
  { breaks, isLarge, ...shape }: Shape & Pick<World, 'breaks' | 'isLarge'> = {},
): World {
  const model = attempts({
    ...{ maxAttempts: 2, maxDefers: 2, processes: 2, fibers: 1, isBatch: false, hasLeases: false },
    ...{ mayPark: false },
    ...{ crashed: [], rules, ...shape },
    events: [...events].map((letter) => BEHAVIOURS[letter] ?? 'ok'),
    faults: { ...NO_FAULTS, ...faults },
  })
  return { name: `attempts: ${name}`, breaks, isLarge, explore: () => explore(model) }
}

export const TWO: Shape = { fibers: 2 }
export const ONE_PROCESS: Shape = { fibers: 2, processes: 1 }
/** One process with two batches at a time. */
export const TWO_BATCHES: Shape = { fibers: 2, processes: 1, isBatch: true }
export const BATCH: Shape = { isBatch: true }
/** Webhooks with `run: 'later'`, beside a process with the setting of before. */
export const PARKING: Shape = { mayPark: true }
export const LEASES: Shape = { hasLeases: true }
export const LEASED_BATCH: Shape = { hasLeases: true, isBatch: true }

export const ENDLESS = 'deferred more often than allowed'
export const BURIED = 'an innocent event is buried'
export const UNDONE = 'a committed effect, then another state'
export const LOST = 'acked and lost'
export const STUCK = 'nothing but a fault leads on to an end'
export const FALSE_LETTER = 'a committed effect published as dead'
export const EARLY = 'buried before its attempts are spent'
export const BURNT = 'a second attempt burnt by the poison beside it'
