import type { Guard, Health, Logger } from '@onceward/core'
import type { Pool } from 'pg'

/** What a message asks of the handler. */
export interface Order {
  readonly id: string
  /**
   * `fail-once`: the first run throws. `poison`: every run throws until the cause is mended. `fatal`: as poison, with
   * the error that needs no second attempt. `crash`: the first run loses its connection to the database.
   */
  readonly deed?: 'fail-once' | 'poison' | 'fatal' | 'crash' | undefined
}

/** Sends one statement in the transaction of the handler. */
export type Run = (text: string, values?: readonly unknown[]) => Promise<unknown>

export interface Handling {
  readonly id: string
  readonly deed: Order['deed']
  readonly attempt: number
}

export type Handle = (handling: Handling, run: Run) => Promise<void>

/** A consumer that was started. */
export interface Started {
  /** Resolves after a drain; rejects when a later try to open the store is refused. */
  readonly stopped: Promise<void>
  health(): Health
  drain(): Promise<void>
}

/** A configuration that is there: servers, queues, roles, and a way to consume with a guard. */
export interface Scenario {
  readonly consumer: string
  /** Of an operator, past everything that the cell configures. */
  readonly operator: Pool
  /** Schema of the tables. */
  readonly schema: string
  createGuard(handle: Handle, logger: Logger): Guard
  /** @throws What the adapter throws at its start. */
  consume(guard: Guard): Promise<Started>
  send(orders: readonly Order[]): Promise<void>
  /** Lets the broker deliver again what it has delivered, if it can. */
  redeliver?: (() => Promise<void>) | undefined
  /** Lets dead events run again where no inbox knows them. By default the inbox does. */
  replay?: (() => Promise<void>) | undefined
  /** Messages that are not settled. */
  depth(): Promise<number>
  /** Ids of the messages in the dead-letter place. */
  published(): Promise<readonly string[]>
  /** What is not as it has to be when the story has ended, in words. */
  faults?: (() => Promise<readonly string[]>) | undefined
  close(): Promise<void>
}
