import type { ProveBroker } from './proof.ts'
import type { GivenServers } from './servers.ts'

/** What is around the database of a proof. The command line does it. */
export interface ProofDatabase {
  /** Events that wait in an inbox for their next attempt. */
  waiting(): Promise<number>
  /** The names of the consumers that guards have registered. */
  consumers(): Promise<readonly string[]>
  /** Removes what was made. @param pids - Every worker that has run. */
  remove(pids: readonly number[]): Promise<void>
}

export interface ProveOptions {
  /** Path of the user's file. */
  readonly file: string
  readonly events: number
  readonly kills: number
  readonly seed: number
  readonly broker: ProveBroker
  /** Left out: embedded ones are started. */
  readonly servers?: GivenServers | undefined
  /** Processes that consume. Default: 3. */
  readonly workers?: number | undefined
  /** How long nothing may happen until an event without effect is lost, milliseconds. Default: 10 000. */
  readonly patienceMs?: number | undefined
  /** How long messages may wait while nothing of them is done, until they are given up, milliseconds. Default: 120 000. */
  readonly stuckMs?: number | undefined
  /** The longest freeze, if nobody takes the event over, milliseconds. Default: 75 000. */
  readonly freezeMs?: number | undefined
  /** How long a call of the user's file may take, `start` included, milliseconds. Default: 60 000. */
  readonly answerMs?: number | undefined
  /** Makes the tables of onceward. */
  readonly prepare: (databaseUrl: string) => Promise<ProofDatabase>
  /** Lines that tell what happens. */
  readonly onProgress?: ((text: string) => void) | undefined
  /** Aborted: everything is ended and removed. */
  readonly signal?: AbortSignal | undefined
}
