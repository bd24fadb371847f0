import type { LeaseStore } from '@onceward/core'
import { StoreUnavailableError } from '@onceward/core'
import type { DoneMark, EventId, LeaseSession } from '@onceward/core/ports'
import {
  type AnswerTo,
  type Command,
  type EventState,
  transition,
} from '../../../packages/core/src/model/state-machine.ts'
import type { Audit } from '../judge/audit.ts'
import type { Link } from '../world/link.ts'
import type { Life } from '../world/process.ts'
import type { Actor, Scheduler } from '../world/scheduler.ts'

const ABSENT: EventState = { kind: 'absent' }
/** States kept for a failover to fall back to. */
const REMEMBERED = 4
/** As the Redis store does: the history's name is read again after this, and not believed after the other, ms. */
const IDENTITY_FRESH_MS = 2_000
const IDENTITY_BELIEVED_MS = 5_000

type States = ReadonlyMap<string, EventState>

/** The simulated lease store: the state machine of the core over a map that may be lost. */
export class LeaseServer {
  upAtMs = 0
  states: States = new Map()
  readonly #scheduler: Scheduler
  readonly #servers: Actor
  readonly #audit: Audit
  #past: States[] = []

  constructor(scheduler: Scheduler, servers: Actor, audit: Audit) {
    this.#scheduler = scheduler
    this.#servers = servers
    this.#audit = audit
  }

  isUp(): boolean {
    return this.#scheduler.nowMs >= this.upAtMs
  }

  flush(): void {
    this.states = new Map()
  }

  /** A replica takes over that lacks the last writes. */
  rollBack(writes: number): void {
    this.states = this.#past.at(-writes) ?? this.#past[0] ?? this.states
  }

  goDown(downMs: number): void {
    this.upAtMs = this.#scheduler.nowMs + downMs
    this.#scheduler.setTimer(this.#servers, () => undefined, downMs)
  }

  stateOf(namespace: string, id: EventId): EventState {
    return this.states.get(`${namespace} ${id}`) ?? ABSENT
  }

  send<C extends Command>(namespace: string, id: EventId, command: C): AnswerTo<C['kind']> {
    const before = this.stateOf(namespace, id)
    const { state, answer } = transition(before, command, this.#scheduler.nowMs)
    this.#audit.leased(id, { before, state, command })
    if (state === before) return answer
    this.#past.push(this.states)
    if (this.#past.length > REMEMBERED) this.#past.shift()
    const states = new Map(this.states)
    if (state.kind === 'absent') states.delete(`${namespace} ${id}`)
    else states.set(`${namespace} ${id}`, state)
    this.states = states
    return answer
  }

  /** Remembers an event that had no claim. Another's claim stays. */
  mark(namespace: string, id: EventId, done: Omit<DoneMark, 'id'>): void {
    if (this.stateOf(namespace, id).kind !== 'absent') return
    this.#past.push(this.states)
    if (this.#past.length > REMEMBERED) this.#past.shift()
    this.states = new Map(this.states).set(`${namespace} ${id}`, { kind: 'done', ...done })
  }
}

/** The lease store as one process sees it. What is done in another history of the inbox is no answer. */
export function simulatedLeases(
  server: LeaseServer,
  link: Link,
  { life, isByNeed = false }: { readonly life: Life; readonly isByNeed?: boolean | undefined },
): LeaseStore {
  const unopened = (): Promise<never> => Promise.reject(new StoreUnavailableError('not opened'))
  return {
    claim: unopened,
    renew: unopened,
    complete: unopened,
    fail: unopened,
    release: unopened,
    bury: unopened,
    open: async ({ identity }) => {
      const history = await followHistory(identity, life)
      const opened = session(server, link, history)
      return isByNeed ? { ...opened, marks: marksOf(server, link, history) } : opened
    },
  }
}

interface FollowedHistory {
  readonly name: () => string
  /** Whether what is done in the history of that name is an answer. */
  readonly isBelieved: (asked: string) => boolean
}

async function followHistory(
  identity: (() => Promise<string>) | undefined,
  { runtime }: Life,
): Promise<FollowedHistory> {
  if (identity === undefined) return { name: () => 'alone', isBelieved: () => true }
  let name = await identity()
  let readAtMs = runtime.monotonic()
  let isReading = false
  const read = async (): Promise<void> => {
    isReading = true
    const startedAtMs = runtime.monotonic()
    try {
      name = await identity()
      readAtMs = startedAtMs
    } catch {
      // It stays as old as it is.
    } finally {
      isReading = false
    }
  }
  return {
    name: () => {
      if (!isReading && runtime.monotonic() - readAtMs > IDENTITY_FRESH_MS) void read()
      return name
    },
    isBelieved: (asked) => asked === name && runtime.monotonic() - readAtMs <= IDENTITY_BELIEVED_MS,
  }
}

function session(server: LeaseServer, link: Link, history: FollowedHistory): LeaseSession {
  // A claim that is held keeps the history it was taken in.
  const takenIn = new Map<string, string>()
  const nameFor = (ownerToken: string): string => takenIn.get(ownerToken) ?? history.name()
  return {
    claim: async (claims) => {
      const name = history.name()
      for (const { ownerToken } of claims) takenIn.set(ownerToken, name)
      const answers = await link.call('claim', () =>
        claims.map(({ id, ...claim }) => server.send(name, id, { kind: 'claim', ...claim })),
      )
      return answers.map((answer) =>
        answer.kind === 'duplicate' && !history.isBelieved(name) ? { kind: 'unknown' } : answer,
      )
    },
    renew: (held, leaseMs) =>
      link.call('renew', () =>
        held.map(({ id, ownerToken }) =>
          server.send(nameFor(ownerToken), id, { kind: 'renew', ownerToken, leaseMs }),
        ),
      ),
    complete: (done) =>
      link.call('complete', () =>
        done.map(({ id, ...rest }) =>
          server.send(nameFor(rest.ownerToken), id, { kind: 'complete', ...rest }),
        ),
      ),
    fail: (failed) =>
      link.call('lease-fail', () =>
        failed.map(({ id, ...rest }) =>
          server.send(nameFor(rest.ownerToken), id, { kind: 'fail', ...rest }),
        ),
      ),
    release: (held) =>
      link.call('lease-release', () =>
        held.map(({ id, ownerToken }) =>
          server.send(nameFor(ownerToken), id, { kind: 'release', ownerToken }),
        ),
      ),
    bury: (dead) =>
      link.call('lease-bury', () =>
        dead.map(({ id, ...rest }) =>
          server.send(nameFor(rest.ownerToken), id, { kind: 'bury', ...rest }),
        ),
      ),
  }
}

/** Marks are bound to the history that was believed when they were asked for. */
function marksOf(
  server: LeaseServer,
  link: Link,
  history: FollowedHistory,
): NonNullable<LeaseSession['marks']> {
  return () => {
    const name = history.name()
    return (done) =>
      link.call('complete', () => {
        for (const { fingerprint, id, result } of done)
          server.mark(name, id, { fingerprint, result })
      })
  }
}
