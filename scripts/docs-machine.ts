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
      ...commands.map((command) => cell(stateAt, command)),
    ]),
  )
}

/** The usual step, then what differs for a first attempt and for a spent one. */
function cell(stateAt: StateAt, command: Command): string {
  const usual = step(stateAt(2), command)
  const others = [
    ['the first attempt', step(stateAt(1), command)],
    ['spent attempts', step(stateAt(MAX_ATTEMPTS), command)],
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

function moved(from: EventState, to: EventState): string {
  if (!('attempt' in to) || to.kind === 'dead') return `**${to.kind}**`
  const change = to.attempt - ('attempt' in from ? from.attempt : 0)
  if (change === 0) return `**${to.kind}**`
  return `**${to.kind}**, attempt ${change > 0 ? '+' : '−'} ${Math.abs(change)}`
}
