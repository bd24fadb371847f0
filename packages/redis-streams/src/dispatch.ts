import {
  type GuardPort,
  type LoopSignals,
  PullLoop,
  type PullSource,
  RunningLanes,
} from '@onceward/core/adapter'
import type { Received } from './delivery.ts'
import { BACKOFF, type BrokerErrorKind, classifyError } from './errors.ts'
import type { Settings } from './options.ts'
import { returnUnstarted, type SettleContext, settle } from './settle.ts'

export interface DispatcherOptions {
  readonly port: GuardPort
  readonly settings: Settings
  readonly context: Omit<SettleContext, 'mayHold'>
  readonly signals: LoopSignals
  readonly source: PullSource<Received>
  /** Must have succeeded before the first receive. */
  readonly check: () => Promise<void>
}

export type Dispatcher = PullLoop<Received, BrokerErrorKind>

/** Entries that wait in memory for their time; further ones wait beside the stream. */
const MOST_HELD = 1_000

/** A loop that drops what another consumer owns now. A run that has begun ends. */
export function createDispatcher(options: DispatcherOptions): Dispatcher {
  const { port, settings, context } = options
  const dispatcher = new PullLoop<Received, BrokerErrorKind>({
    ...{ ...options, classifyError, backoff: BACKOFF },
    fields: { queue: settings.queue, group: settings.group },
    hasDeadLetterPlace: settings.deadLetter !== undefined,
    lanes: new RunningLanes(port.settings),
    mostHeld: MOST_HELD,
    settle: (received, settlement, mayHold) =>
      settle({ ...context, mayHold }, received, settlement),
    giveBack: (received) => returnUnstarted(context, received),
  })
  context.owned.onLost = (lost) => dispatcher.drop(({ entry }) => entry === lost.entry)
  return dispatcher
}
