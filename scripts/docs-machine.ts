import {
  type AttemptCommand,
  type AttemptState,
  attemptStep,
  type Troubled,
  YOUNG_MS,
} from '../packages/core/src/model/attempt-machine.ts'
import type { Fingerprint, OwnerToken } from '../packages/core/src/model/brands.ts'
import type { ClaimResult, HeldAnswer } from '../packages/core/src/model/lease-store.ts'
import {
  type Command,
  type EventState,
  type Transition,
  transition,
} from '../packages/core/src/model/state-machine.ts'
import { table } from './docs-table.ts'

const NOW_MS = 1_000
const MAX_ATTEMPTS = 5
const me = 'me' as OwnerToken
const fingerprint = 0x1101n as Fingerprint

const COMMANDS = {
  claim: {
    ...({ kind: 'claim', fingerprint, ownerToken: me } as const),
    ...{ leaseMs: 10, maxAttempts: MAX_ATTEMPTS },
  },
  renew: { kind: 'renew', ownerToken: me, leaseMs: 10 },
  complete: { kind: 'complete', ownerToken: me },
  fail: { kind: 'fail', ownerToken: me, delayMs: 10 },
  release: { kind: 'release', ownerToken: me },
  bury: { kind: 'bury', ownerToken: me, reason: 'fatal' },
} as const satisfies { [Kind in Command['kind']]: Extract<Command, { kind: Kind }> }

type StateAt = (attempt: number) => EventState

const inProgress =
  (owner: string, leaseUntil: number): StateAt =>
  (attempt) => ({
    ...({ kind: 'in-progress', owner: owner as OwnerToken, by: 'first', parked: false } as const),
    ...{ leaseUntil, attempt, fingerprint },
  })

const waiting =
  (notBefore: number): StateAt =>
  (attempt) => ({ kind: 'waiting', notBefore, attempt, fingerprint, parked: false })

const ROWS: Readonly<Record<string, StateAt>> = {
  absent: () => ({ kind: 'absent' }),
  'in-progress, mine': inProgress('me', NOW_MS + 5),
  "in-progress, another's": inProgress('another', NOW_MS + 5),
  "in-progress, another's, lease expired": inProgress('another', NOW_MS),
  'waiting, not due': waiting(NOW_MS + 5),
  'waiting, due': waiting(NOW_MS),
  done: () => ({ kind: 'done', fingerprint }),
  dead: (attempt) => ({ kind: 'dead', reason: 'fatal', attempt, fingerprint }),
}

/** The table of `MACHINE`: every cell is what `transition` answers for a state like the row's. */
export function stateMachineTable(): string {
  const commands = Object.values(COMMANDS)
  return table(
    ['from \\ on', ...commands.map(({ kind }) => kind)],
    Object.entries(ROWS).map(([name, stateAt]) => [
      name,
      ...commands.map((command) => cell((attempt) => step(stateAt(attempt), command))),
    ]),
  )
}

/** The usual step, then what differs for a first attempt and for a spent one. */
function cell(stepAfter: (attempt: number) => string): string {
  const usual = stepAfter(2)
  const others = [
    ['the first attempt', stepAfter(1)],
    ['spent attempts', stepAfter(MAX_ATTEMPTS)],
  ].filter(([, text]) => text !== usual)
  return [usual, ...others.map(([when, text]) => `after ${when}: ${text}`)].join('; ')
}

function step(from: EventState, command: Command): string {
  const { answer, state }: Transition<ClaimResult | HeldAnswer> = transition(from, command, NOW_MS)
  if (answer === 'lost') return 'lost'
  if (answer === 'held') return from.kind === state.kind ? 'lease extended' : moved(from, state)
  if (answer.kind !== 'acquired') {
    return from.kind === state.kind ? `_${answer.kind}_` : moved(from, state)
  }
  const isResent = 'owner' in from && from.owner === me
  return isResent ? 'acquired again' : `${moved(from, state)} (${answer.by})`
}

interface Attempted {
  readonly kind: string
  readonly attempt?: number
}

function moved(from: Attempted, to: Attempted): string {
  if (to.attempt === undefined || to.kind === 'dead') return `**${to.kind}**`
  const change = to.attempt - (from.attempt ?? 0)
  if (change === 0) return `**${to.kind}**`
  return `**${to.kind}**, attempt ${change > 0 ? '+' : '−'} ${Math.abs(change)}`
}

const troubled =
  (over: Partial<Troubled>) =>
  (attempt: number): AttemptState => ({
    ...{ kind: 'waiting', attempt, noVerdicts: 0, countedAtMs: 0, nextTryAtMs: NOW_MS },
    ...{ parked: false, alone: false, published: false },
    ...over,
  })

const running = (token: string, ageMs: number) =>
  troubled({ kind: 'running', token: token as OwnerToken, countedAtMs: NOW_MS - ageMs })

const ATTEMPT_ROWS: Readonly<Record<string, (attempt: number) => AttemptState>> = {
  absent: () => ({ kind: 'absent' }),
  'running, mine': running('me', 0),
  "running, another's": running('another', 0),
  "running, another's, 5 s old": running('another', YOUNG_MS),
  'waiting, not due': troubled({ nextTryAtMs: NOW_MS + 5 }),
  'waiting, due': troubled({}),
  'waiting, due, alone': troubled({ alone: true }),
  done: () => ({ kind: 'done' }),
  dead: troubled({ kind: 'dead', reason: 'fatal' }),
}

const count = { kind: 'count', token: 'new' as OwnerToken, maxAttempts: MAX_ATTEMPTS } as const
const ATTEMPT_COLUMNS: Readonly<Record<string, (state: AttemptState) => AttemptCommand>> = {
  suspect: () => ({ kind: 'suspect', token: me }),
  'count, together': () => ({ ...count, run: 'together' }),
  'count, alone': () => ({ ...count, run: 'alone' }),
  fail: (state) => ({ kind: 'fail', ...verdictOn(state), delayMs: 10 }),
  bury: (state) => ({ kind: 'bury', ...verdictOn(state), reason: 'fatal' }),
  release: () => ({ kind: 'release', token: me, as: 'given-back' }),
  park: () => ({ kind: 'park', isConflict: false }),
}

/** Without a row, a verdict is that of a clean run. */
const verdictOn = ({ kind }: AttemptState) => ({
  ...{ attempt: 1, token: kind === 'absent' ? undefined : me },
})

/** The table of `ATTEMPTS`: every cell is what `attemptStep` answers for a state like the row's. */
export function attemptTable(): string {
  const columns = Object.entries(ATTEMPT_COLUMNS)
  return table(
    ['from \\ on', ...columns.map(([name]) => name)],
    Object.entries(ATTEMPT_ROWS).map(([name, stateAfter]) => [
      name,
      ...columns.map(([, commandOn]) =>
        cell((attempt) => attemptCell(stateAfter(attempt), commandOn(stateAfter(attempt)))),
      ),
    ]),
  )
}

function attemptCell(from: AttemptState, command: AttemptCommand): string {
  const { answer, next } = attemptStep(from, command, NOW_MS)
  const kind = typeof answer === 'string' ? answer : answer.kind
  if (next === undefined) return kind === 'lost' ? 'lost' : `_${kind}_`
  if (kind === 'parked') return from.kind === next.kind ? 'parked' : `${moved(from, next)}, parked`
  return moved(from, next)
}
