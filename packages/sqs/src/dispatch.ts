import {
  type GuardPort,
  type LoopSignals,
  PullLoop,
  type PullSource,
  type Startable,
  type StartLimits,
} from '@onceward/core/adapter'
import { BACKOFF, type BrokerErrorKind, classifyError } from './errors.ts'
import type { Settings } from './options.ts'
import { returnUnstarted, type SettleContext, settle } from './settle.ts'
import type { Received } from './visibility.ts'

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

/** A loop whose messages wait for the store hidden, and are received again if that takes too long. */
export function createDispatcher(options: DispatcherOptions): Dispatcher {
  const { settings, context } = options
  return new PullLoop<Received, BrokerErrorKind>({
    ...{ ...options, classifyError, backoff: BACKOFF },
    fields: { queue: settings.queueUrl },
    hasDeadLetterPlace: settings.deadLetter !== undefined,
    lanes: { findStartable },
    // A message that waits for a time of its own waits in its queue.
    mostHeld: 0,
    isLeftWhenDue: true,
    settle: (received, settlement, mayHold) =>
      settle({ ...context, mayHold }, received, settlement),
    giveBack: (received) => returnUnstarted(context, received),
    onAgain: (group) => {
      for (const received of group) context.ticker.hold(received)
      return group.toSorted((a, b) => a.sequence - b.sequence)
    },
  })
}

/** Takes whole groups only: SQS delivers no more of a group while some of it is in flight, so splitting gains nothing. */
function findStartable(pending: readonly Received[], limits: StartLimits): Startable<Received> {
  const groups: (readonly Received[])[] = []
  let considered = 0
  while (groups.length < limits.groups && considered < pending.length) {
    const end = endOfGroup(pending, considered)
    if (considered > 0 && end > limits.deliveries) break
    groups.push(pending.slice(considered, end))
    considered = end
  }
  return { groups, considered, blocked: [] }
}

function endOfGroup(pending: readonly Received[], start: number): number {
  const key = pending[start]?.delivery.orderingKey
  let end = start + 1
  while (key !== undefined && pending[end]?.delivery.orderingKey === key) end += 1
  return end
}
