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
  readonly state: State
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
  const seen: Seen<State>[] = [{ state: model.initial, from: -1, label: 'start', before: [] }]
  const indexOf = new Map([[JSON.stringify(model.initial), 0]])
  for (let index = 0; index < seen.length; index += 1) {
    if (seen.length > limit) return { states: seen.length, isComplete: false }
    const { state } = seen[index] as Seen<State>
    const why = model.violation(state)
    if (why !== undefined) return found(seen, index, why)
    for (const { isFault, label, state: after } of model.next(state)) {
      const key = JSON.stringify(after)
      let to = indexOf.get(key)
      if (to === undefined) {
        to = seen.length
        indexOf.set(key, to)
        seen.push({ state: after, from: index, label, before: [] })
      }
      if (isFault !== true) seen[to]?.before.push(index)
    }
  }
  const stuck = firstStuck(model, seen)
  if (stuck !== undefined) return found(seen, stuck, 'nothing but a fault leads on to an end')
  return { states: seen.length, isComplete: true }
}

function firstStuck<State>(model: Model<State>, seen: readonly Seen<State>[]): number | undefined {
  const ends = new Set<number>()
  const stack = [...seen.keys()].filter((index) => model.isEnd((seen[index] as Seen<State>).state))
  for (;;) {
    const index = stack.pop()
    if (index === undefined) break
    if (ends.has(index)) continue
    ends.add(index)
    stack.push(...(seen[index]?.before ?? []))
  }
  const first = [...seen.keys()].find((index) => !ends.has(index))
  return first
}

function found<State>(seen: readonly Seen<State>[], index: number, why: string): Exploration {
  const trace: string[] = []
  for (let at = index; at > 0; at = seen[at]?.from ?? 0) trace.unshift(seen[at]?.label ?? '')
  return { states: seen.length, isComplete: false, violation: { why, trace } }
}
