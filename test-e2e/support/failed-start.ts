import type { EventEmitter } from 'node:events'
import type { Consumption, Guard, Inbox, LeaseStore } from '@onceward/core'
import type { FailingStep } from './failing-step.ts'

/** A consumer on a real server, one step of whose client fails. */
export interface Start {
  readonly guard: Guard
  readonly signal: AbortSignal
  readonly step: FailingStep
}

export interface FailedStartSubject {
  /** Of the guard; in memory by default. */
  readonly stores?: (step: FailingStep) => {
    readonly inbox: Inbox<unknown>
    readonly leases: LeaseStore
  }
  /** Errors as the client of the broker throws them. */
  readonly errors: Readonly<Record<string, () => Error>>
  /** What of the user's may keep listeners. */
  readonly emitters: () => Readonly<Record<string, EventEmitter>>
  /** Undefined where nothing is consumed. */
  consume(start: Start): Promise<Consumption | undefined>
  stop(): Promise<void>
}

/** A way to start, with its servers. */
export interface FailedStart {
  readonly title: string
  start(): Promise<FailedStartSubject>
}

export const network = (): Error =>
  Object.assign(new Error('read ECONNRESET'), { code: 'ECONNRESET' })
