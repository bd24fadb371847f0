import type { Model, Step } from './explore.ts'
import {
  KEYS,
  keyOf,
  type OutboxFaults,
  type OutboxRules,
  type OutboxState,
  type Relay,
  type Row,
  type Writer,
} from './outbox-state.ts'

/** Runs in vain before a message is a dead letter. */
const MAX_ATTEMPTS = 2

const NEW: Writer = { at: 'locks', locked: [], drawn: [] }
const IDLE: Relay = { hasLease: false, batch: [], confirmed: undefined }

type Steps = Step<OutboxState>[]

/** Two writers, whose messages have the same two keys, two relays, and a broker. */
export function outbox(rules: OutboxRules, faults: OutboxFaults): Model<OutboxState> {
  const begin: Writer = rules.drawsInside ? NEW : { ...NEW, at: 'draws' }
  return {
    initial: {
      ...{ writers: [begin, begin], next: 0, rows: [], commits: [[], []] },
      ...{ relays: [IDLE, IDLE], owner: undefined, cursor: -1, arrived: [0, 0, 0, 0], dead: [] },
      ...{ left: faults, excused: 0 },
    },
    next: (state) => [
      ...state.writers.flatMap((writer, index) => ofWriter(state, rules, { writer, index, begin })),
      ...state.relays.flatMap((relay, index) => ofRelay(state, rules, { relay, index })),
      ...ofTime(state, rules),
    ],
    violation: (state) => state.wrong ?? lost(state) ?? copied(state),
    isEnd: ({ arrived, commits, dead, relays, rows, writers }) =>
      writers.every(({ at }) => at === 'done') &&
      rows.length === 0 &&
      relays.every(({ batch, confirmed }) => batch.length === 0 && confirmed === undefined) &&
      commits.flat().every((message) => (arrived[message] ?? 0) > 0 || dead.includes(message)),
  }
}

function lost({ arrived, commits, dead, relays, rows }: OutboxState): string | undefined {
  const isKept = (message: number): boolean =>
    (arrived[message] ?? 0) > 0 ||
    dead.includes(message) ||
    rows.some((row) => row.message === message) ||
    relays.some(({ batch }) => batch.includes(message))
  return commits.flat().every(isKept) ? undefined : 'a message is lost'
}

function copied({ arrived, excused }: OutboxState): string | undefined {
  const copies = arrived.reduce((sum, times) => sum + Math.max(0, times - 1), 0)
  return copies > excused ? 'published twice without a fault' : undefined
}

const spent = (left: OutboxFaults, fault: keyof OutboxFaults): OutboxFaults => ({
  ...left,
  [fault]: left[fault] - 1,
})

const withAt = <Value>(all: readonly Value[], at: number, value: Value): readonly Value[] =>
  all.map((one, index) => (index === at ? value : one))

interface WriterTurn {
  readonly writer: Writer
  readonly index: number
  readonly begin: Writer
}

function ofWriter(
  state: OutboxState,
  rules: OutboxRules,
  { begin, index, writer }: WriterTurn,
): Steps {
  const { left, writers } = state
  const steps: Steps = []
  const to = (label: string, next: Writer, rest: Partial<OutboxState> = {}, isFault = false) => {
    const after = { ...state, ...rest, writers: withAt(writers, index, next) }
    steps.push({ label: `W${index} ${label}`, state: after, isFault })
  }
  if (writer.at === 'done') return steps
  // The handlers send in different orders.
  const both = rules.sortsLocks || index === 0 ? [0, 1] : [1, 0]
  const keys = rules.sharesKeys ? both : [index]
  if (left.writer > 0) to('dies', begin, { left: spent(left, 'writer') }, true)
  if (writer.at === 'locks') {
    const key = rules.locks ? keys[writer.locked.length] : undefined
    if (key === undefined)
      to('has its locks', { ...writer, at: rules.drawsInside ? 'draws' : 'commits' })
    else if (!writers.some(({ locked }) => locked.includes(key))) {
      to(`locks k${key}`, { ...writer, locked: [...writer.locked, key] })
    }
  } else if (writer.at === 'draws') {
    const key = keys.toSorted()[writer.drawn.length]
    if (key === undefined)
      to('has its positions', { ...writer, at: rules.drawsInside ? 'commits' : 'locks' })
    else {
      const message = index * KEYS + key
      const row = { message, position: state.next, attempts: 0, isWaiting: false }
      const drawn = [...writer.drawn, row]
      to(`draws ${state.next} for m${message}`, { ...writer, drawn }, { next: state.next + 1 })
    }
  } else {
    const rows = [...state.rows, ...writer.drawn].toSorted((a, b) => a.position - b.position)
    const commits = state.commits.map((of, key) =>
      keys.includes(key) ? [...of, index * KEYS + key] : of,
    )
    to('commits', { at: 'done', locked: [], drawn: [] }, { rows, commits })
  }
  return steps
}

interface RelayTurn {
  readonly relay: Relay
  readonly index: number
}

function ofRelay(state: OutboxState, rules: OutboxRules, turn: RelayTurn): Steps {
  const { index, relay } = turn
  const { left, owner, relays } = state
  const steps: Steps = []
  const to = (
    label: string,
    next: Relay,
    rest: Partial<OutboxState> = {},
    fault?: keyof OutboxFaults,
  ): void => {
    if (fault !== undefined && left[fault] === 0) return
    const after = { ...state, ...rest, relays: withAt(relays, index, next) }
    const changed = fault === undefined ? after : { ...after, left: spent(left, fault) }
    steps.push({ label: `R${index} ${label}`, state: changed, isFault: fault !== undefined })
  }
  const isIdle = relay.batch.length === 0 && relay.confirmed === undefined
  const mayWork = relay.hasLease || !rules.leases
  if (!isIdle || relay.hasLease) to('dies', IDLE, { excused: state.excused + 1 }, 'relay')
  if (relay.confirmed !== undefined) {
    const { confirmed } = relay
    const rows = state.rows.filter(({ message }) => message !== confirmed)
    to(`deletes m${confirmed}`, { ...relay, confirmed: undefined }, { rows })
  } else if (!isIdle) publish(state, rules, { ...turn, to })
  else if (mayWork) {
    const batch = readable(state, rules)
    if (batch.length > 0) {
      const cursor = Math.max(state.cursor, ...batch.map(({ position }) => position))
      const messages = batch.map(({ message }) => message)
      const rest = rules.deletesAfter ? {} : { rows: without(state.rows, messages) }
      to(
        `reads ${messages.map((m) => `m${m}`)}`,
        { ...relay, batch: messages },
        { ...rest, cursor },
      )
    }
    if (relay.hasLease) to('gives the lease back', IDLE, { owner: undefined })
  } else if (owner === undefined)
    to('takes the lease', { ...relay, hasLease: true }, { owner: index })
  return steps
}

const without = (rows: readonly Row[], messages: readonly number[]): readonly Row[] =>
  rows.filter(({ message }) => !messages.includes(message))

function readable({ cursor, rows }: OutboxState, rules: OutboxRules): readonly Row[] {
  const isHeld = (row: Row): boolean =>
    row.isWaiting ||
    (rules.holdsKey &&
      rows.some((other) => other.isWaiting && keyOf(other.message) === keyOf(row.message)))
  const isNew = (row: Row): boolean => rules.readsUndeleted || row.position > cursor
  return rows.filter((row) => isNew(row) && !isHeld(row))
}

type Publish = RelayTurn & {
  readonly to: (
    label: string,
    next: Relay,
    rest?: Partial<OutboxState>,
    fault?: keyof OutboxFaults,
  ) => void
}

/** A relay that was frozen goes on with what it has read. */
function publish(state: OutboxState, rules: OutboxRules, { relay, to }: Publish): void {
  const [message = 0, ...rest] = relay.batch
  const key = keyOf(message)
  const times = state.arrived[message] ?? 0
  const earlier = (state.commits[key] ?? []).slice(0, state.commits[key]?.indexOf(message))
  const isEarly = earlier.some((one) => state.arrived[one] === 0 && !state.dead.includes(one))
  const wrong = times === 0 && isEarly ? 'a message overtakes one of its key' : undefined
  const arrived = withAt(state.arrived, message, times + 1)
  to(`publishes m${message}`, { ...relay, batch: rest, confirmed: message }, { arrived, wrong })
  const others = rules.holdsKey ? rest.filter((other) => keyOf(other) !== key) : rest
  const failed = { ...relay, batch: others }
  to(`is refused with m${message}`, failed, refused(state, message), 'refuse')
  const heard = { ...refused(state, message), arrived, wrong, excused: state.excused + 1 }
  to(`does not hear of m${message}`, failed, heard, 'unconfirmed')
}

function refused(state: OutboxState, message: number): Pick<OutboxState, 'rows' | 'dead'> {
  const row = state.rows.find((one) => one.message === message)
  if (row === undefined) return state
  const attempts = row.attempts + 1
  const dead = attempts >= MAX_ATTEMPTS
  const rows = dead
    ? without(state.rows, [message])
    : state.rows.map((one) => (one === row ? { ...row, attempts, isWaiting: true } : one))
  return { rows, dead: dead ? [...state.dead, message] : state.dead }
}

function ofTime(state: OutboxState, { expires }: OutboxRules): Steps {
  const steps: Steps = state.rows
    .filter(({ isWaiting }) => isWaiting)
    .map(({ message }) => {
      const rows = state.rows.map((row) =>
        row.message === message ? { ...row, isWaiting: false } : row,
      )
      return { label: `m${message} is due`, state: { ...state, rows } }
    })
  const { left, owner, relays } = state
  const mine = owner === undefined ? undefined : relays[owner]
  if (owner === undefined || mine === undefined || !expires) return steps
  if (!mine.hasLease) {
    steps.push({ label: 'the lease is over', state: { ...state, owner: undefined } })
  } else if (left.freeze > 0) {
    // Its relay does not notice before it asks the database again.
    const thawed = withAt(relays, owner, { ...mine, hasLease: false })
    const copies = mine.batch.length + (mine.confirmed === undefined ? 0 : 1)
    const excused = state.excused + copies
    const after = {
      ...state,
      owner: undefined,
      relays: thawed,
      excused,
      left: spent(left, 'freeze'),
    }
    steps.push({
      label: `the lease of R${owner} is over while it is frozen`,
      state: after,
      isFault: true,
    })
  }
  return steps
}
