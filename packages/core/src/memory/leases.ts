import { systemRuntime } from '../concurrency/system-runtime.ts'
import type { EventId } from '../model/brands.ts'
import { StoreUnavailableError } from '../model/errors.ts'
import type { LeaseOperators, LeaseStore } from '../model/lease-store.ts'
import type { Runtime } from '../model/runtime.ts'
import {
  type AnswerTo,
  type Command,
  type EventState,
  OPERATORS,
  transition,
} from '../model/state-machine.ts'

/** Maximum number of stored events. Each takes about 300 bytes. */
const MAX_EVENTS = 1_000_000

interface Entry {
  readonly state: EventState
  /** When a `done` or `dead` event may be deleted, on the store's clock. Undefined in all other states. */
  readonly forgetAtMs?: number | undefined
}

/**
 * A lease store in this process's memory: {@link transition} over a map. For tests, and for a single process.
 *
 * Done events are deleted when their `rememberMs` has passed. If the store is full of events that must be kept, it
 * refuses claims with {@link StoreUnavailableError}, because deleting such an event could cause a second effect.
 */
export function memoryLeases(runtime: Runtime = systemRuntime): LeaseStore & LeaseOperators {
  const events = new LeaseMap(runtime)
  return {
    claim: async (claims) => {
      events.makeRoom(claims.length)
      return claims.map(({ id, ...claim }) => events.send(id, { kind: 'claim', ...claim }))
    },
    renew: async (held, leaseMs) =>
      held.map(({ id, ownerToken }) => events.send(id, { kind: 'renew', ownerToken, leaseMs })),
    complete: async (done, rememberMs) =>
      done.map(({ id, ...rest }) => events.send(id, { kind: 'complete', ...rest }, rememberMs)),
    fail: async (failed) =>
      failed.map(({ id, ...rest }) => events.send(id, { kind: 'fail', ...rest })),
    release: async (held) =>
      held.map(({ id, ownerToken }) => events.send(id, { kind: 'release', ownerToken })),
    bury: async (dead, rememberMs) =>
      dead.map(({ id, ...rest }) => events.send(id, { kind: 'bury', ...rest }, rememberMs)),
    replay: async (ids) => ids.map((id) => events.operate(id, 'replay')),
    forget: async (ids) => ids.map((id) => events.operate(id, 'forget')),
  }
}

class LeaseMap {
  readonly #events = new Map<EventId, Entry>()
  readonly #runtime: Runtime

  constructor(runtime: Runtime) {
    this.#runtime = runtime
  }

  send<C extends Command>(id: EventId, command: C, rememberMs?: number): AnswerTo<C['kind']> {
    const nowMs = this.#runtime.monotonic()
    const before = this.#stateOf(id, nowMs)
    const { state, answer } = transition(before, command, nowMs)
    if (state !== before) {
      this.#put(id, {
        state,
        forgetAtMs: rememberMs === undefined ? undefined : nowMs + rememberMs,
      })
    }
    return answer
  }

  operate(id: EventId, as: keyof typeof OPERATORS): boolean {
    const nowMs = this.#runtime.monotonic()
    const state = OPERATORS[as](this.#stateOf(id, nowMs), nowMs)
    if (state !== undefined) this.#put(id, { state })
    return state !== undefined
  }

  makeRoom(count: number): void {
    if (this.#events.size + count <= MAX_EVENTS) return
    const nowMs = this.#runtime.monotonic()
    for (const id of this.#events.keys()) this.#stateOf(id, nowMs)
    if (this.#events.size + count <= MAX_EVENTS) return
    throw new StoreUnavailableError(
      `memoryLeases() is full: it holds ${this.#events.size} events that must be kept. ` +
        'Set a shorter `dedupWindowMs`, or use a lease store outside the process.',
    )
  }

  #put(id: EventId, entry: Entry): void {
    this.#events.delete(id)
    if (entry.state.kind !== 'absent') this.#events.set(id, entry)
  }

  #stateOf(id: EventId, nowMs: number): EventState {
    const entry = this.#events.get(id)
    if (entry === undefined) return { kind: 'absent' }
    if (entry.forgetAtMs === undefined || entry.forgetAtMs > nowMs) return entry.state
    this.#events.delete(id)
    return { kind: 'absent' }
  }
}
