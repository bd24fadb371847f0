/**
 * THE table of attempts (design.md §6): how an inbox answers a command about one event, and what it remembers of the
 * event afterwards. The inboxes in memory and in Redis apply it. Random statements compare the SQL of the other inboxes
 * with the inbox in memory. docs/architecture.md shows the table.
 *
 * Claims and commits are not in it, because they belong to the transaction of the handler. An inbox that applies the
 * table has locked the row, or writes only if the row has not changed meanwhile.
 */

import type { OwnerToken } from './brands.ts'
import type { CountAnswer, Failure, Known, ParkAnswer, Release, VerdictAnswer } from './inbox.ts'
import type { DeadLetterReason } from './settlement.ts'

/** A running row that was counted more recently belongs to a live owner, even if the row is not locked. */
export const YOUNG_MS = 5_000

/** Gives the owner of a row time to lock it in its transaction before another process may take it over. */
const START_MARGIN_MS = 1_000

/** A counted run that has not started after this time must not start, because its row soon gets another owner. */
export const LATEST_START_MS: number = YOUNG_MS - START_MARGIN_MS

/**
 * The limit of runs without a verdict, as a multiple of the attempts. Such a run says nothing about its event, but an
 * event whose every run ends this way must not run forever.
 */
export const NO_VERDICT_FACTOR = 3

/**
 * Whether a running row still belongs to the owner that counted it `ageMs` ago. A count that lies ahead was made before
 * the clock of the store was set back, so its age says nothing: the owner may be dead, and it must not hold its event until
 * that time comes again. A live one loses its token, and with it nothing but the attempt.
 */
export function isOwnerLive(ageMs: number): boolean {
  return Math.abs(ageMs) < YOUNG_MS
}

/** Whether this attempt was the last one. */
export function areAttemptsSpent(attempt: number, maxAttempts: number): boolean {
  return attempt >= maxAttempts
}

/** How to count an event. */
export interface CountRequest {
  /** Earlier runs that are known to have ended without a verdict. */
  readonly noVerdicts: number
  /** `alone`: nothing else runs in the process during the run. */
  readonly run: 'together' | 'alone'
  readonly maxAttempts: number
}

/** Like {@link CountAnswer}, before the store has created a token. */
export type CountDecision =
  | Exclude<CountAnswer, { kind: 'counted' }>
  | { readonly kind: 'counted'; readonly attempt: number }

/** Attempts are counted whatever the payload is. */
type Judged<K extends Known> = K extends Known ? Omit<K, 'fingerprint'> : never

/** What a count does to an event in this state. Pure. The row is locked. */
export function decideCount(known: Judged<Known>, request: CountRequest): CountDecision {
  if (known.kind === 'running' && isOwnerLive(known.ageMs)) return { kind: 'held' }
  if (!isToBeRun(known, request.run)) return { kind: 'changed' }
  const { attempt } = known
  const { maxAttempts, noVerdicts } = request
  if (areAttemptsSpent(attempt, maxAttempts)) {
    return { kind: 'buried', reason: 'attempts-spent', attempt }
  }
  if (noVerdicts >= NO_VERDICT_FACTOR * maxAttempts) {
    return { kind: 'buried', reason: 'no-verdict', attempt }
  }
  return { kind: 'counted', attempt: attempt + 1 }
}

/** A running row without a live owner runs alone, because its last run may have crashed the process. */
function isToBeRun(
  known: Judged<Known>,
  run: 'together' | 'alone',
): known is Judged<Extract<Known, { kind: 'running' | 'waiting' }>> {
  if (known.kind === 'running') return run === 'alone'
  return known.kind === 'waiting' && known.remainingMs <= 0 && (run === 'alone' || !known.alone)
}

/** The publication of a dead letter: of an event, or of a refused message. Instants are on the store's clock, ms. */
export interface Publication {
  readonly published: boolean
  /** The right to publish. */
  readonly publishing?: { readonly token: OwnerToken; readonly untilMs: number } | undefined
}

/** What an inbox remembers of an event that had trouble. Instants are milliseconds on the store's clock. */
export interface Troubled extends Publication {
  readonly kind: 'running' | 'waiting' | 'dead'
  readonly attempt: number
  /** Runs without a verdict that were recorded by a living process. */
  readonly noVerdicts: number
  /** How often its handler has deferred it. Left out: never. */
  readonly defers?: number | undefined
  readonly token?: OwnerToken | undefined
  readonly countedAtMs: number
  readonly nextTryAtMs: number
  readonly reason?: DeadLetterReason | undefined
  readonly parked: boolean
  readonly alone: boolean
}

export type AttemptState = { readonly kind: 'absent' } | { readonly kind: 'done' } | Troubled

interface Verdict {
  /** Undefined after a clean run, which left no row. */
  readonly token?: OwnerToken | undefined
  readonly attempt: number
}

interface Commands {
  readonly suspect: { readonly token: OwnerToken }
  readonly count: { readonly token: OwnerToken } & Omit<CountRequest, 'noVerdicts'>
  readonly fail: Verdict & Pick<Failure, 'delayMs' | 'deferral'>
  readonly bury: Verdict & { readonly reason: DeadLetterReason }
  readonly release: Pick<Release, 'as' | 'token'>
  readonly park: { readonly isConflict: boolean }
}

/** A command about one event. */
export type AttemptCommand<Kind extends keyof Commands = keyof Commands> = {
  readonly [K in Kind]: { readonly kind: K } & Commands[K]
}[Kind]

/** Of `park`, `known` stands for what a guard reads of the event. */
export type AttemptAnswer<Kind extends AttemptCommand['kind']> = Kind extends 'suspect' | 'count'
  ? CountAnswer
  : Kind extends 'park'
    ? Extract<ParkAnswer['kind'], 'known' | 'parked'>
    : VerdictAnswer

/** What an inbox keeps of the event after a step that changes it. */
export type Remembered = Exclude<AttemptState, { kind: 'done' }>

/** Without `next` nothing changes. */
export interface Step<Answer> {
  readonly answer: Answer
  readonly next?: Remembered
}

type StateOf<Kind> = Kind extends Troubled['kind'] ? Troubled : { readonly kind: Kind }
type Take<S, Kind extends AttemptCommand['kind']> = (
  state: S,
  command: AttemptCommand<Kind>,
  nowMs: number,
) => Step<AttemptAnswer<Kind>>

const NEW: Troubled = {
  ...{ kind: 'waiting', attempt: 0, noVerdicts: 0, countedAtMs: 0, nextTryAtMs: 0 },
  ...{ parked: false, alone: false, published: false },
}
export const UNPUBLISHED = { published: false, publishing: undefined } as const
/** A verdict ends the ownership of the run, and the event need not run alone any more. */
const JUDGED = { token: undefined, alone: false } as const

const lost = (): Step<VerdictAnswer> => ({ answer: 'lost' })
const known = (): Step<'known'> => ({ answer: 'known' })
const changed = (): Step<CountAnswer> => ({ answer: { kind: 'changed' } })

const begin = (before: Troubled, token: OwnerToken, nowMs: number): Step<CountAnswer> => {
  const attempt = before.attempt + 1
  return {
    answer: { kind: 'counted', token, attempt },
    next: { ...before, kind: 'running', attempt, token, countedAtMs: nowMs },
  }
}

const countFirst: Take<AttemptState, 'suspect'> = (_state, { token }, nowMs) =>
  begin(NEW, token, nowMs)

const countNext: Take<Troubled, 'count'> = (state, { token, ...request }, nowMs) => {
  const { alone, kind, noVerdicts } = state
  const decision = decideCount(knownTrouble(state, nowMs), { ...request, noVerdicts })
  if (decision.kind === 'buried') return { answer: decision, next: toDead(state, decision, nowMs) }
  if (decision.kind !== 'counted') return { answer: decision }
  // An event without a verdict runs alone until it has one, even if this attempt is released.
  return begin({ ...state, alone: alone || kind === 'running' }, token, nowMs)
}

/** What is remembered after a command that is obeyed. */
type Become<C> = (before: Troubled, command: C, nowMs: number) => Remembered

const toWaiting: Become<Pick<Failure, 'delayMs' | 'deferral'>> = (before, command, nowMs) => {
  const { deferral, delayMs } = command
  const kind = 'waiting' as const
  const waiting = { ...before, ...JUDGED, kind, nextTryAtMs: nowMs + delayMs }
  if (deferral === undefined) return waiting
  const { attempt, defers = 0 } = before
  return { ...waiting, attempt: Math.max(0, attempt - 1), defers: defers + 1 }
}

const toDead: Become<{ readonly reason: DeadLetterReason }> = (before, { reason }) => ({
  ...{ ...before, ...JUDGED, ...UNPUBLISHED },
  ...{ kind: 'dead', reason },
})

/** After a clean run there is no row. A verdict with a token has lost its row. */
const first =
  <C>(become: Become<C>) =>
  (_state: AttemptState, command: C & Verdict, nowMs: number): Step<VerdictAnswer> => {
    const { attempt, token } = command
    if (token !== undefined) return lost()
    return { answer: 'recorded', next: become({ ...NEW, attempt }, command, nowMs) }
  }

/** The fence: only the owner of the token may change a running event. */
const mine =
  <C>(become: Become<C>) =>
  (state: Troubled, command: C & Pick<Verdict, 'token'>, nowMs: number): Step<VerdictAnswer> =>
    state.token === command.token
      ? { answer: 'recorded', next: become(state, command, nowMs) }
      : lost()

/** Deferrals are bounded in the life of an event. */
const orSpent =
  (take: Take<Troubled, 'fail'>): Take<Troubled, 'fail'> =>
  (state, command, nowMs) => {
    const { defers = 0, token } = state
    const { deferral } = command
    const isSpent = deferral !== undefined && defers >= deferral.most && token === command.token
    return isSpent ? { answer: 'spent' } : take(state, command, nowMs)
  }

const giveBack: Become<AttemptCommand<'release'>> = (state, { as }, nowMs) => {
  const isUnproven = as === 'no-verdict'
  const attempt = Math.max(0, state.attempt - 1)
  const noVerdicts = state.noVerdicts + (isUnproven ? 1 : 0)
  const isNew = attempt === 0 && noVerdicts === 0 && (state.defers ?? 0) === 0
  if (isNew && !state.parked) return { kind: 'absent' }
  const alone = state.alone || isUnproven
  return {
    ...{ ...state, kind: 'waiting', token: undefined },
    ...{ attempt, noVerdicts, alone, nextTryAtMs: nowMs },
  }
}

const parkNew: Take<AttemptState, 'park'> = (_state, _command, nowMs) => ({
  answer: 'parked',
  next: { ...NEW, parked: true, nextTryAtMs: nowMs },
})

/** An event that has a stored delivery keeps it. */
const parkToo: Take<Troubled, 'park'> = (state, { isConflict }) =>
  state.parked || isConflict ? known() : { answer: 'parked', next: { ...state, parked: true } }

/** One step for every state and command: a missing cell does not compile. */
export type AttemptMachine = {
  readonly [S in AttemptState['kind']]: {
    readonly [C in AttemptCommand['kind']]: Take<StateOf<S>, C>
  }
}

// biome-ignore format: one row per state, one column per command
export const ATTEMPTS: AttemptMachine = {
  //         suspect              count             fail                    bury                 release                  park
  absent:  { suspect: countFirst, count: changed,   fail: first(toWaiting), bury: first(toDead), release: lost,           park: parkNew },
  running: { suspect: changed,    count: countNext, fail: orSpent(mine(toWaiting)), bury: mine(toDead), release: mine(giveBack), park: parkToo },
  waiting: { suspect: changed,    count: countNext, fail: lost,             bury: lost,          release: lost,           park: parkToo },
  done:    { suspect: changed,    count: changed,   fail: lost,             bury: lost,          release: lost,           park: known },
  dead:    { suspect: changed,    count: changed,   fail: lost,             bury: lost,          release: lost,           park: known },
}

/** Looks up the step in {@link ATTEMPTS} and takes it. Pure. */
export function attemptStep<Kind extends AttemptCommand['kind']>(
  state: AttemptState,
  command: AttemptCommand<Kind>,
  nowMs: number,
): Step<AttemptAnswer<Kind>> {
  // The row matches the state and the column matches the command, which the compiler cannot check.
  const step = ATTEMPTS[state.kind][command.kind] as unknown as Take<AttemptState, Kind>
  return step(state, command, nowMs)
}

/** What a guard reads of an event that had trouble, without its fingerprint. */
export function knownTrouble(
  state: Troubled,
  nowMs: number,
): Judged<Extract<Known, { kind: Troubled['kind'] }>> {
  const { alone, attempt, kind, published, reason = 'attempts-spent' } = state
  switch (kind) {
    case 'running':
      return { kind, attempt, ageMs: nowMs - state.countedAtMs }
    case 'waiting':
      return { kind, attempt, alone, remainingMs: Math.max(0, state.nextTryAtMs - nowMs) }
    case 'dead':
      return { kind, attempt, published, reason }
  }
}

/** Whether a guard has to run or to publish a parked event by itself now. */
export function dueNow(state: AttemptState, nowMs: number): 'run' | 'publish' | undefined {
  if (state.kind === 'absent' || state.kind === 'done' || !state.parked) return undefined
  switch (state.kind) {
    case 'running':
      return isOwnerLive(nowMs - state.countedAtMs) ? undefined : 'run'
    case 'waiting':
      return state.nextTryAtMs <= nowMs ? 'run' : undefined
    case 'dead':
      return state.published || isBeingPublished(state, nowMs) ? undefined : 'publish'
  }
}

/** An operator leaves such a dead letter alone. */
export function isBeingPublished({ publishing }: Publication, nowMs: number): boolean {
  return publishing !== undefined && publishing.untilMs > nowMs
}

/** What becomes of the dead letter that an operator replays: parked, due now, alone, with all its attempts. */
export function replayed(nowMs: number): Troubled {
  const due = { token: undefined, nextTryAtMs: nowMs, parked: true, alone: true }
  return { ...NEW, ...UNPUBLISHED, ...due }
}
