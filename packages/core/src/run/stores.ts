import type { GroupGate } from '../concurrency/group-gate.ts'
import type { Semaphore } from '../concurrency/semaphore.ts'
import type { LocalDefers } from '../handler/deferral.ts'
import type { Leases } from '../lease/claim.ts'
import type { WatchedLeases } from '../lease/shared-lease-store.ts'
import type { LocalMessageCounts } from '../support/message-counts.ts'
import type { Engine } from '../transaction/engine.ts'
import type { Known } from './known.ts'

/** The open stores of a guard. */
export type OpenStores = OpenInbox | OpenLeases

export interface OpenInbox extends OpenedStores {
  readonly engine: Engine
  readonly leases: OpenedLeases | undefined
  readonly known: Known
}

/** Without an inbox the lease store is the only one. */
export interface OpenLeases extends OpenedStores {
  readonly engine: undefined
  readonly leases: OpenedLeases
  readonly known: undefined
}

/** With the error of the store's last call, if it failed. */
export type OpenedLeases = Leases & Pick<WatchedLeases, 'outage' | 'close'>

interface OpenedStores {
  /** Secret for hashing event keys. */
  readonly secret: Uint8Array
  /** Limits the handlers that run at the same time. */
  readonly slots: Semaphore
  /** Reads of the inbox by the lease store that are in progress. It reads during claims. */
  readonly reads: ReadonlySet<Promise<unknown>>
  /** Counts of failed reads where no inbox keeps them: of this process alone. */
  readonly localCounts: LocalMessageCounts
  /** Undefined: events have no groups. */
  readonly groups?: GroupGate | undefined
  /** Counts of deferrals where no inbox keeps them: of this process alone. */
  readonly localDefers: LocalDefers
}
