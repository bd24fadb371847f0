import type { EventId } from '@onceward/core/ports'
import type { Message } from '../brokers/broker.ts'
import type { Life } from '../world/process.ts'

/** What is known of an event beside what the stores say of it. */
export interface Case {
  readonly key: string
  readonly id: EventId
  readonly index: number
  /** Disturbances while a process had it in hand: each may cost an attempt. */
  hits: number
  /** Attempts burnt by a poison that killed the process beside it. */
  burns: number
  /** Those of them in which nothing had made the poison suspect yet. */
  freshBurns: number
  /** Runs of the handler that ended by an error or at their deadline. */
  failures: number
  kills: number
  /** Failures and kills that a replay has made forgotten. */
  forgiven: number
  /** Runs of the handler that returned. */
  successes: number
  /** Deliveries that nothing made suspect: a kill in such a run is not counted. */
  freshDeliveries: number
  isReplayed: boolean
  /** `afterCommit` has sent its reply. */
  isReplied: boolean
  /** In any history; a failover may lose it again. */
  wasDecided: boolean
  /** Effects outside of any database. */
  effects: number
  /** What the dead-letter place has: payloads of buried events, and numbers of refused messages. */
  letters: readonly string[]
  /** When the deaths were whose letter the dead-letter place has, ms. */
  readonly lettersOf: Set<number>
  /** Until when somebody has the right to publish its letter, ms of virtual time. */
  publishedUntilMs: number
  /** Payloads whose commit a failover has lost, and when the survivor was up, ms. */
  lostUntilMs: Readonly<Record<string, number>>
}

export const payloadOf = ({ key, plan }: Pick<Message, 'key' | 'plan'>): string =>
  `${key}:${plan.variant}`

export function toCase(key: string, id: EventId, index: number): Case {
  return {
    key,
    id,
    index,
    hits: 0,
    burns: 0,
    freshBurns: 0,
    failures: 0,
    kills: 0,
    forgiven: 0,
    successes: 0,
    freshDeliveries: 0,
    isReplayed: false,
    isReplied: false,
    wasDecided: false,
    effects: 0,
    letters: [],
    lettersOf: new Set(),
    publishedUntilMs: 0,
    lostUntilMs: {},
  }
}

export interface CountHeard {
  readonly isAlone: boolean
  readonly isHeard: () => boolean
}

export interface Counted extends CountHeard {
  readonly life: Life
  /** Of the copy that runs. */
  readonly receipt: string
  readonly atMs: number
}
