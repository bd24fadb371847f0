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
import { keyOf } from './owned.ts'
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

/** A loop whose messages wait for a time of their own at the server, and drops what another consumer may have. */
export function createDispatcher(options: DispatcherOptions): Dispatcher {
  const { port, settings, context } = options
  const dispatcher = new PullLoop<Received, BrokerErrorKind>({
    ...{ ...options, classifyError, backoff: BACKOFF },
    fields: { queue: settings.stream, consumer: settings.consumer },
    hasDeadLetterPlace: settings.deadLetter !== undefined,
    lanes: new RunningLanes(port.settings),
    mostHeld: 0,
    settle: (received, settlement, mayHold) =>
      settle({ ...context, mayHold }, received, settlement),
    giveBack: (received) => returnUnstarted(context, received),
  })
  context.owned.onLost = (lost) =>
    dispatcher.drop(({ message }) => keyOf(message) === keyOf(lost.message))
  return dispatcher
}
