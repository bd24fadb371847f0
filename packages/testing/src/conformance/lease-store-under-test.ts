import { randomUUID } from 'node:crypto'
import type {
  Claim,
  ClaimResult,
  EventId,
  Fingerprint,
  Held,
  HeldAnswer,
  LeaseOperators,
  LeaseSession,
  OwnerToken,
} from '@onceward/core/ports'

/** One empty lease store without an inbox, and the operations that a test needs from outside. */
export interface LeaseStoreUnderTest extends AsyncDisposable {
  readonly store: LeaseSession & Partial<LeaseOperators>
  /** Lets time pass on the clock of the store. */
  pass(ms: number): Promise<void>
}

/** The load that a lease store can handle in a test. */
export interface LeaseStoreCapabilities {
  /** Claims of one event at the same time. */
  readonly rivals: number
  /** Events of one call, a multiple of 100; 5,000 by default. A store that has one request per event takes fewer. */
  readonly batch?: number
}

export const LEASE_MS = 30_000
export const DELAY_MS = 60_000
export const REMEMBER_MS = 3_600_000
/** Long after any lease: attempts are still counted then. */
export const LONG_MS = 43_200_000

/** Fingerprints of rule 1, of the same payload and of another, of rule 2, and two of no rule. */
export const FINGERPRINT: Fingerprint = 0x1234_5678_9abc_de01n as Fingerprint
export const OTHER_PAYLOAD: Fingerprint = -0x7234_5678_9abc_deffn as Fingerprint
export const OTHER_RULE: Fingerprint = 0x7777_7777_7777_7702n as Fingerprint
export const NO_RULE: readonly [Fingerprint, Fingerprint] = [
  0x1111_1111_1111_1100n as Fingerprint,
  0x2222_2222_2222_2200n as Fingerprint,
]

export const newId = (): EventId => randomUUID() as EventId
export const newToken = (): OwnerToken => randomUUID() as OwnerToken

export function newClaim(over: Partial<Claim> = {}): Claim {
  return {
    id: newId(),
    fingerprint: FINGERPRINT,
    ownerToken: newToken(),
    leaseMs: LEASE_MS,
    ...over,
  }
}

/** The verbs of an owner. */
export const VERBS = ['renew', 'complete', 'fail', 'release', 'bury'] as const
export type Verb = (typeof VERBS)[number]

/** States a test can bring an event into. `expired`: in progress, its lease is over. */
export const STATES = ['in-progress', 'expired', 'waiting', 'due', 'done', 'dead'] as const
export type State = (typeof STATES)[number]

/** The steps of one owner with one event. */
export class LeaseSteps {
  readonly #subject: LeaseStoreUnderTest

  constructor(subject: LeaseStoreUnderTest) {
    this.#subject = subject
  }

  async claim(claim: Claim): Promise<ClaimResult> {
    const [result] = await this.#subject.store.claim([claim])
    if (result === undefined) throw new Error('claim() gave no answer')
    return result
  }

  async tell(verb: Verb, held: Held): Promise<HeldAnswer> {
    const { store } = this.#subject
    const answers = {
      renew: () => store.renew([held], LEASE_MS),
      complete: () => store.complete([{ ...held, result: 'sent' }], REMEMBER_MS),
      fail: () => store.fail([{ ...held, delayMs: DELAY_MS }]),
      release: () => store.release([held]),
      bury: () => store.bury([{ ...held, reason: 'fatal' }], REMEMBER_MS),
    } satisfies Record<Verb, () => Promise<readonly HeldAnswer[]>>
    const [answer] = await answers[verb]()
    if (answer === undefined) throw new Error(`${verb}() gave no answer`)
    return answer
  }

  /** Brings a new event into a state; answers the claim that did it. */
  async reach(state: State, over: Partial<Claim> = {}): Promise<Claim> {
    const mine = newClaim(over)
    await this.claim(mine)
    const verb = VERB_TO[state]
    if (verb !== undefined && (await this.tell(verb, mine)) !== 'held') {
      throw new Error(`${verb}() lost its own claim`)
    }
    if (state === 'expired') await this.#subject.pass(LEASE_MS + 1)
    if (state === 'due') await this.#subject.pass(DELAY_MS + 1)
    return mine
  }
}

const VERB_TO: Readonly<Record<State, Verb | undefined>> = {
  'in-progress': undefined,
  expired: undefined,
  waiting: 'fail',
  due: 'fail',
  done: 'complete',
  dead: 'bury',
}

/** Opens a store of its own for one test. */
export type OpenLeases = () => Promise<OpenedLeases>

export interface OpenedLeases extends AsyncDisposable {
  readonly subject: LeaseStoreUnderTest
  readonly steps: LeaseSteps
}
