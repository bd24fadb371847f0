/**
 * THE state machine of an event (design.md §4). Every lease store implements exactly this table.
 *
 * | from \ on                 | claim                              | renew | complete | fail | release | bury |
 * |---------------------------|------------------------------------|-------|----------|------|---------|------|
 * | absent                    | → in-progress, attempt 1           | lost  | lost     | lost | lost    | lost |
 * | in-progress, mine         | `acquired` again, same attempt     | held  | → done   | → waiting | → waiting, due now, attempt − 1 (absent when 0, unless parked) | → dead |
 * | in-progress, another's    | `in-progress(remaining)`           | lost  | lost     | lost | lost    | lost |
 * | in-progress, expired      | → in-progress, attempt + 1, or dead when spent | lost* | lost* | lost* | lost* | lost* |
 * | waiting, not due          | `not-due(remaining)`               | lost  | lost     | lost | lost    | lost |
 * | waiting, due              | → in-progress, attempt + 1, or dead when spent | lost | lost | lost | lost | lost |
 * | done                      | `duplicate(result?)`               | lost  | lost     | lost | lost    | lost |
 * | dead                      | `dead(reason)`                     | lost  | lost     | lost | lost    | lost |
 *
 * \* An owner whose lease expired but was not taken over still owns the event: the token decides, not the clock.
 * A claim with another fingerprint of the same rule answers `conflict` in every state but absent and changes nothing.
 */

import { areAttemptsSpent } from './attempt-machine.ts'
import type { Fingerprint, Json, OwnerToken } from './brands.ts'
import type { ClaimResult, HeldAnswer } from './lease-store.ts'
import type { DeadLetterReason } from './settlement.ts'

/** Instants (`leaseUntil`, `notBefore`) are milliseconds on the store's own clock. */
export type EventState =
  | { readonly kind: 'absent' }
  | {
      readonly kind: 'in-progress'
      readonly owner: OwnerToken
      readonly leaseUntil: number
      readonly attempt: number
      /** How the event was acquired. A resent claim gets the same answer as the first one. */
      readonly by: AcquiredBy
      readonly fingerprint: Fingerprint
      readonly parked: boolean
    }
  | {
      readonly kind: 'waiting'
      readonly notBefore: number
      readonly attempt: number
      readonly fingerprint: Fingerprint
      readonly parked: boolean
    }
  | {
      readonly kind: 'done'
      readonly fingerprint: Fingerprint
      readonly result?: Json | undefined
    }
  | {
      readonly kind: 'dead'
      readonly reason: DeadLetterReason
      readonly attempt: number
      readonly fingerprint: Fingerprint
    }

/** One command of a lease store for one event. Times are durations in milliseconds. */
export type Command =
  | {
      readonly kind: 'claim'
      readonly fingerprint: Fingerprint
      readonly ownerToken: OwnerToken
      readonly leaseMs: number
      readonly maxAttempts?: number | undefined
    }
  | { readonly kind: 'renew'; readonly ownerToken: OwnerToken; readonly leaseMs: number }
  | {
      readonly kind: 'complete'
      readonly ownerToken: OwnerToken
      readonly result?: Json | undefined
    }
  | { readonly kind: 'fail'; readonly ownerToken: OwnerToken; readonly delayMs: number }
  | { readonly kind: 'release'; readonly ownerToken: OwnerToken }
  | { readonly kind: 'bury'; readonly ownerToken: OwnerToken; readonly reason: DeadLetterReason }

type AcquiredBy = Extract<ClaimResult, { kind: 'acquired' }>['by']
type StateOf<Kind> = Extract<EventState, { kind: Kind }>
type CommandOf<Kind> = Extract<Command, { kind: Kind }>
type Claim = CommandOf<'claim'>
type InProgress = StateOf<'in-progress'>

export interface Transition<Answer> {
  readonly state: EventState
  readonly answer: Answer
}

/** The answer of a store to a command. */
export type AnswerTo<Kind extends Command['kind']> = Kind extends 'claim' ? ClaimResult : HeldAnswer

type Step<C extends Command> = (
  state: EventState,
  command: C,
  nowMs: number,
) => Transition<AnswerTo<C['kind']>>

/** One step for every state and command: a missing cell does not compile. */
export type Machine = {
  readonly [S in EventState['kind']]: {
    readonly [C in Command['kind']]: (
      state: StateOf<S>,
      command: CommandOf<C>,
      nowMs: number,
    ) => Transition<AnswerTo<C>>
  }
}

const lost = (state: EventState): Transition<HeldAnswer> => ({ state, answer: 'lost' })

/** The fence: only the owner of the token can change a claim, whether the lease has expired or not. */
const mine =
  <C extends { readonly ownerToken: OwnerToken }>(
    step: (state: InProgress, command: C, nowMs: number) => EventState,
  ) =>
  (state: InProgress, command: C, nowMs: number): Transition<HeldAnswer> =>
    state.owner === command.ownerToken
      ? { state: step(state, command, nowMs), answer: 'held' }
      : lost(state)

const extend = mine((state, command: CommandOf<'renew'>, nowMs) => ({
  ...state,
  leaseUntil: nowMs + command.leaseMs,
}))

const finish = mine((state, command: CommandOf<'complete'>) => ({
  kind: 'done',
  fingerprint: state.fingerprint,
  result: command.result,
}))

const wait = mine((state, command: CommandOf<'fail'>, nowMs) =>
  toWaiting(state, state.attempt, nowMs + command.delayMs),
)

const releaseRuns = mine((state, _command: CommandOf<'release'>, nowMs) => {
  if (state.by === 'takeover') return asBeforeTakeover(state, nowMs)
  return state.attempt <= 1 && !state.parked
    ? { kind: 'absent' }
    : toWaiting(state, Math.max(0, state.attempt - 1), nowMs)
})

/** No owner has this token. */
const NOBODY = '-' as OwnerToken

/**
 * The next claim is a takeover again. As a retry it would run the handler, although the effect of the owner that died may
 * have happened.
 */
const asBeforeTakeover = (state: InProgress, nowMs: number): InProgress => ({
  ...state,
  owner: NOBODY,
  leaseUntil: Math.min(state.leaseUntil, nowMs),
  attempt: state.attempt - 1,
})

const toDeadState = mine((state, command: CommandOf<'bury'>) => toDead(state, command.reason))

const toWaiting = (state: InProgress, attempt: number, notBefore: number): EventState => ({
  kind: 'waiting',
  notBefore,
  attempt,
  fingerprint: state.fingerprint,
  parked: state.parked,
})

const toDead = (
  state: StateOf<'in-progress' | 'waiting'>,
  reason: DeadLetterReason,
): StateOf<'dead'> => ({
  kind: 'dead',
  reason,
  attempt: state.attempt,
  fingerprint: state.fingerprint,
})

/** A claim with another payload gets no information about the event and changes nothing. */
const unlessConflict =
  <S extends Exclude<EventState, { kind: 'absent' }>>(
    step: (state: S, claim: Claim, nowMs: number) => Transition<ClaimResult>,
  ) =>
  (state: S, claim: Claim, nowMs: number): Transition<ClaimResult> =>
    isConflict(state.fingerprint, claim.fingerprint)
      ? { state, answer: { kind: 'conflict' } }
      : step(state, claim, nowMs)

const acquire = (
  before: { readonly attempt: number; readonly parked: boolean; readonly by: AcquiredBy },
  claim: Claim,
  nowMs: number,
): Transition<ClaimResult> => {
  const { by, parked } = before
  const attempt = before.attempt + 1
  return {
    state: {
      kind: 'in-progress',
      owner: claim.ownerToken,
      leaseUntil: nowMs + claim.leaseMs,
      attempt,
      by,
      fingerprint: claim.fingerprint,
      parked,
    },
    answer: { kind: 'acquired', by, attempt },
  }
}

const acquireNextAttempt = (
  state: StateOf<'in-progress' | 'waiting'>,
  by: AcquiredBy,
  claim: Claim,
  nowMs: number,
): Transition<ClaimResult> => {
  const { maxAttempts } = claim
  if (maxAttempts !== undefined && areAttemptsSpent(state.attempt, maxAttempts)) {
    const dead = toDead(state, 'attempts-spent')
    return { state: dead, answer: { kind: 'dead', reason: dead.reason } }
  }
  return acquire({ attempt: state.attempt, parked: state.parked, by }, claim, nowMs)
}

const claimFirst = (
  _state: StateOf<'absent'>,
  claim: Claim,
  nowMs: number,
): Transition<ClaimResult> => acquire({ attempt: 0, parked: false, by: 'first' }, claim, nowMs)

const claimHeld = unlessConflict((state: InProgress, claim, nowMs) => {
  if (state.owner === claim.ownerToken) {
    return {
      state: { ...state, leaseUntil: Math.max(state.leaseUntil, nowMs + claim.leaseMs) },
      answer: { kind: 'acquired', by: state.by, attempt: state.attempt },
    }
  }
  const remainingMs = state.leaseUntil - nowMs
  return remainingMs > 0
    ? { state, answer: { kind: 'in-progress', remainingMs } }
    : acquireNextAttempt(state, 'takeover', claim, nowMs)
})

const claimDue = unlessConflict((state: StateOf<'waiting'>, claim, nowMs) => {
  const remainingMs = state.notBefore - nowMs
  return remainingMs > 0
    ? { state, answer: { kind: 'not-due', remainingMs } }
    : acquireNextAttempt(state, 'retry', claim, nowMs)
})

const duplicate = unlessConflict((state: StateOf<'done'>) => ({
  state,
  answer: { kind: 'duplicate', result: state.result },
}))

const dead = unlessConflict((state: StateOf<'dead'>) => ({
  state,
  answer: { kind: 'dead', reason: state.reason },
}))

// biome-ignore format: one row per state, one column per command
export const MACHINE: Machine = {
  //              claim              renew          complete          fail        release            bury
  absent:        { claim: claimFirst, renew: lost,   complete: lost,   fail: lost, release: lost,     bury: lost },
  'in-progress': { claim: claimHeld,  renew: extend, complete: finish, fail: wait, release: releaseRuns, bury: toDeadState },
  waiting:       { claim: claimDue,   renew: lost,   complete: lost,   fail: lost, release: lost,     bury: lost },
  done:          { claim: duplicate,  renew: lost,   complete: lost,   fail: lost, release: lost,     bury: lost },
  dead:          { claim: dead,       renew: lost,   complete: lost,   fail: lost, release: lost,     bury: lost },
}

/** Operations on an event, regardless of its owner. Undefined if there is nothing to do. */
export const OPERATORS = {
  replay: (state: EventState, nowMs: number): EventState | undefined => {
    if (state.kind !== 'dead') return undefined
    const { fingerprint } = state
    return { kind: 'waiting', notBefore: nowMs, attempt: 0, fingerprint, parked: true }
  },
  forget: (state: EventState): EventState | undefined =>
    state.kind === 'absent' ? undefined : { kind: 'absent' },
} as const

/**
 * Looks up the step in {@link MACHINE} and takes it. Pure.
 *
 * @param nowMs - Milliseconds on the clock of the instants in `state`.
 */
export function transition<C extends Command>(
  state: EventState,
  command: C,
  nowMs: number,
): Transition<AnswerTo<C['kind']>> {
  // The row matches the state and the column matches the command, which the compiler cannot check.
  const step = MACHINE[state.kind][command.kind] as unknown as Step<C>
  return step(state, command, nowMs)
}

const VERSION_BITS = 8

/** Whether two fingerprints of the same rule differ, which means that the payloads differ. */
export function isConflict(stored: Fingerprint, seen: Fingerprint): boolean {
  const version = BigInt.asUintN(VERSION_BITS, stored)
  return version !== 0n && version === BigInt.asUintN(VERSION_BITS, seen) && stored !== seen
}
