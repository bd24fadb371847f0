import { createHash } from 'node:crypto'

/** One step of a model: a call of a store or a broker, something that time brings, or a fault. */
export interface Step<State> {
  readonly label: string
  readonly state: State
  /** A fault may happen, but nothing may need it: without faults every event ends. */
  readonly isFault?: boolean | undefined
}

/** A protocol in small: plain JSON states and the steps between them. */
export interface Model<State> {
  readonly initial: State
  next(state: State): Iterable<Step<State>>
  /** What is wrong with the state, if anything is. */
  violation(state: State): string | undefined
  /** Whether everything has come to its end. */
  isEnd(state: State): boolean
}

export interface Exploration {
  readonly states: number
  /** False if the limit was reached. */
  readonly isComplete: boolean
  /** The first thing that is wrong, with the shortest way there. */
  readonly violation?: { readonly why: string; readonly trace: readonly string[] } | undefined
}

interface Seen<State> {
  /** Until its steps are known; not all states have room at the same time. */
  state: State | undefined
  readonly isEnd: boolean
  readonly from: number
  readonly label: string
  /** States that lead here without a fault. */
  readonly before: number[]
}

/**
 * Visits every reachable state, nearest first, so the first violation has the shortest trace. Afterwards every state must
 * have a way to an end that needs no fault: otherwise something is stuck.
 */
export function explore<State>(model: Model<State>, limit = 2_000_000): Exploration {
  const seen = [toSeen(model, model.initial, { from: -1, label: 'start' })]
  const indexOf = new Map([[hash(model.initial), 0]])
  for (let index = 0; index < seen.length; index += 1) {
    if (seen.length > limit) return { states: seen.length, isComplete: false }
    const one = seen[index] as Seen<State>
    const state = one.state as State
    one.state = undefined
    const why = model.violation(state)
    if (why !== undefined) return found(seen, index, why)
    for (const { isFault, label, state: after } of model.next(state)) {
      const key = hash(after)
      let to = indexOf.get(key)
      if (to === undefined) {
        to = seen.length
        indexOf.set(key, to)
        seen.push(toSeen(model, after, { from: index, label }))
      }
      if (isFault !== true) seen[to]?.before.push(index)
    }
  }
  const stuck = firstStuck(seen)
  if (stuck !== undefined) return found(seen, stuck, 'nothing but a fault leads on to an end')
  return { states: seen.length, isComplete: true }
}

function toSeen<State>(
  model: Model<State>,
  state: State,
  { from, label }: Pick<Seen<State>, 'from' | 'label'>,
): Seen<State> {
  return { state, isEnd: model.isEnd(state), from, label, before: [] }
}

/** 160 bits: no two of a few million states have the same. */
function hash(state: unknown): string {
  return createHash('sha1').update(JSON.stringify(state)).digest('base64')
}

function firstStuck<State>(seen: readonly Seen<State>[]): number | undefined {
  const leadsToEnd = new Uint8Array(seen.length)
  const stack = [...seen.keys()].filter((index) => seen[index]?.isEnd)
  for (;;) {
    const index = stack.pop()
    if (index === undefined) break
    if (leadsToEnd[index] === 1) continue
    leadsToEnd[index] = 1
    for (const before of seen[index]?.before ?? []) stack.push(before)
  }
  const first = leadsToEnd.indexOf(0)
  return first < 0 ? undefined : first
}

function found<State>(seen: readonly Seen<State>[], index: number, why: string): Exploration {
  const trace: string[] = []
  for (let at = index; at > 0; at = seen[at]?.from ?? 0) trace.unshift(seen[at]?.label ?? '')
  return { states: seen.length, isComplete: false, violation: { why, trace } }
}
