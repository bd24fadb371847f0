import type { Message } from '@aws-sdk/client-sqs'
import { ConfigurationError, type Delivery, type Settlement } from '@onceward/core'
import {
  andThen,
  busyMs,
  type DeadLetterPlace,
  type GuardPort,
  laterMs,
  type MaybeAsync,
  type MayHold,
  refuseUnknownNames,
  type Settle,
  SettleReport,
  settleBy,
  settleDeadLetter,
  type Verbs,
  type WaitRange,
} from '@onceward/core/adapter'
import { type Runtime, systemRuntime } from '@onceward/core/ports'
import type { SqsApi, SqsClient } from './client.ts'
import { createSqsApi } from './clients/aws-sdk.ts'
import { BatchRequests, type EntryAnswer } from './clients/batch-requests.ts'
import { placeOf } from './dead-letter.ts'
import { toDelivery } from './delivery.ts'
import { classifyError } from './errors.ts'
import type { Settings } from './options.ts'
import { type Received, VisibilityTicker, visibilitySeconds } from './visibility.ts'

/** A delete costs more than the write it follows, so it pays to wait for ten; but a FIFO group waits for its delete. */
const DELETE_WINDOW_MS = 20

/** What settling needs. */
export interface SettleContext {
  readonly port: Pick<GuardPort, 'publishDeadLetter'>
  readonly runtime: Runtime
  readonly visibilityMs: number
  readonly ticker: Pick<VisibilityTicker, 'hold' | 'release' | 'stop'>
  readonly deletes: Pick<BatchRequests, 'add'>
  readonly changes: Pick<BatchRequests, 'add'>
  /** Sets the visibility to 0; on FIFO queues from the last message to the first. */
  readonly returns: Pick<BatchRequests, 'add'>
  readonly place: DeadLetterPlace
  /** In a drain and in a wrap none may be held. */
  readonly mayHold: MayHold
  readonly report: SettleReport<Received>
}

/** The context without `mayHold`, which those who know what is held add. */
export function createSettleContext(
  port: GuardPort,
  api: SqsApi,
  settings: Settings,
): Omit<SettleContext, 'mayHold'> {
  const { runtime, logger } = port
  const { queueUrl, visibilityMs, renewMs, fifo } = settings
  const change = { runtime, call: api.changeVisibility }
  const changes = new BatchRequests(change)
  return {
    port,
    runtime,
    visibilityMs,
    ticker: new VisibilityTicker({ api, runtime, logger, queueUrl, visibilityMs, renewMs }),
    deletes: new BatchRequests({
      runtime,
      windowMs: fifo ? undefined : DELETE_WINDOW_MS,
      call: (entries) => api.remove(entries.map(({ handle }) => handle)),
    }),
    changes,
    returns: fifo ? new BatchRequests({ ...change, lastFirst: true }) : changes,
    place: placeOf(api, settings),
    report: new SettleReport({
      logger,
      fieldsOf: ({ message }) => ({ queue: queueUrl, messageId: message.MessageId }),
      describe: (error) => classifyError(error).text,
    }),
  }
}

/**
 * Until when the message waits here for the store, on the monotonic clock; undefined if it does not. A message whose
 * settlement failed becomes visible when its timeout ends; then the store decides: duplicate, dead, or run again.
 */
export type SettleAnswer = number | undefined

/** A message that is visible again within this time is left to its next receive. */
const MARGIN_MS = 2_000

/** When a dead message is received again. */
const DEAD: WaitRange = { leastMs: 5_000, mostMs: 30_000 }

const VERBS: Verbs<SettleContext, Received, SettleAnswer> = {
  ack: (context, received) => remove(context, received),
  defer: async (context, received, settlement) => {
    await hide(context, received, deferredMs(context.runtime, received.delivery, settlement))
    const isWaiting = settlement.reason === 'store-down' && context.mayHold('outage')
    return isWaiting ? received.hiddenUntilMs - MARGIN_MS : undefined
  },
  'dead-letter': (context, received, settlement) => {
    const later = () => hide(context, received, laterMs(context.runtime, DEAD))
    if (context.place.kind === 'broker') return later()
    const over = () => remove(context, received)
    return settleDeadLetter(received, settlement, { ...context, over, again: later })
  },
  abandon: async (context, received, { reason }) => {
    if (reason === 'closing') return returnUnstarted(context, received)
    // The lease was lost or the commit is unknown. The next delivery finds out.
    const hiddenUntilMs = await context.ticker.release(received)
    const { runtime, visibilityMs } = context
    // An outage of the store may have hidden the message for minutes.
    const isLong = hiddenUntilMs > runtime.monotonic() + visibilityMs
    return isLong ? hide(context, received, visibilityMs) : undefined
  },
}

/** Carries out a settlement. */
export const settle: Settle<SettleContext, Received, SettleAnswer> = settleBy(
  VERBS,
  (context, received, { settlement, error }) => {
    context.report.failed(received, settlement.kind, error)
    return andThen(context.ticker.release(received), () => undefined)
  },
)

/** Makes a message that was not started visible at once. */
export async function returnUnstarted(
  context: Pick<SettleContext, 'ticker' | 'returns' | 'report'>,
  received: Received,
): Promise<undefined> {
  const expiresAtMs = await context.ticker.release(received)
  const { handle, sequence } = received
  const answer = await context.returns.add({ handle, sequence, seconds: 0, expiresAtMs })
  isTold(context, received, 'give back', answer)
}

/** Without an async function, because every message of a healthy queue is removed. */
function remove(context: SettleContext, received: Received): MaybeAsync<undefined> {
  return andThen(context.ticker.release(received), () => {
    const { handle, sequence } = received
    // Tried again in any case: after a long poll the message may be hidden for longer than is known, and to delete a
    // processed message late does no harm.
    const entry = { handle, sequence, seconds: 0, expiresAtMs: Number.POSITIVE_INFINITY }
    const removing = context.deletes.add(entry)
    return removing.then((answer) => {
      isTold(context, received, 'delete', answer)
      return undefined
    })
  })
}

async function hide(
  context: SettleContext,
  received: Received,
  wantedMs: number,
): Promise<undefined> {
  const expiresAtMs = await context.ticker.release(received)
  const nowMs = context.runtime.monotonic()
  // At least a second: 0 would be a hot loop.
  const seconds = Math.max(1, visibilitySeconds(wantedMs, nowMs - received.receivedAtMs))
  const { handle, sequence } = received
  const answer = await context.changes.add({ handle, sequence, seconds, expiresAtMs })
  const isHidden = isTold(context, received, 'defer', answer)
  received.hiddenUntilMs = isHidden ? nowMs + seconds * 1_000 : expiresAtMs
}

/** What tells how long a message waits: on FIFO queues its group, and how often it was received. */
type Waiting = Pick<Delivery, 'deliveryCount' | 'orderingKey'>

/** How long a deferred message is hidden, ms. Loops of onceward and those of frameworks hide it for as long. */
function deferredMs(
  runtime: Pick<Runtime, 'now' | 'random'>,
  delivery: Waiting,
  { reason, until }: Extract<Settlement, { kind: 'defer' }>,
): number {
  const dueMs = until - runtime.now()
  if (reason === 'store-down') return Math.max(dueMs, outageMs(runtime, delivery))
  const waitMs = reason === 'in-progress' ? Math.max(dueMs, busyMs(paceOf(delivery))) : dueMs
  return waitMs + jitterMs(runtime, delivery, waitMs)
}

/**
 * Every receive counts towards `maxReceiveCount`, also while the store is down. At least half a minute between two
 * receives keeps an outage from filling the dead-letter queue.
 */
const outageMs = (runtime: Pick<Runtime, 'random'>, { orderingKey }: Waiting): number =>
  30_000 + (orderingKey === undefined ? runtime.random() * 90_000 : 0)

/**
 * An event that runs elsewhere is received again after two seconds and then every four, or later if the guard says
 * so. Shorter waits would use up `maxReceiveCount`.
 */
const paceOf = ({ deliveryCount = 2 }: Waiting) => ({ rounds: deliveryCount, busiestMs: 4_000 })

/** Jitter only delays: a message that comes before its time costs a receive. Messages of a group keep one time. */
function jitterMs(
  runtime: Pick<Runtime, 'random'>,
  { orderingKey }: Waiting,
  wantedMs: number,
): number {
  if (orderingKey !== undefined) return 0
  return runtime.random() * Math.min(Math.max(0, wantedMs) * 0.2, 5_000)
}

function isTold(
  { report }: Pick<SettleContext, 'report'>,
  received: Received,
  verb: string,
  answer: EntryAnswer,
): boolean {
  if (answer.kind === 'refused') report.refused(received, { verb, reason: answer.code })
  return answer.kind === 'settled'
}

/** What {@link settleSqs} needs to know of the queue. */
export interface SettleSqsOptions {
  readonly queueUrl: string
  /**
   * `'redrive'` (default): a dead message is left to the redrive policy of the queue. `'inbox'`: its record in the inbox is
   * enough, and the message is deleted. Never without an inbox.
   */
  readonly deadLetter?: 'redrive' | 'inbox' | undefined
}

/**
 * Settles a message whose loop a framework owns:
 * `await settleSqs(client, message, await guard.process(fromSqsMessage(message, queueUrl)), { queueUrl })`.
 *
 * What is done is deleted. Everything else is hidden until it is due, as by `consumeSqs`: for half a minute and more while
 * the store is down, because each receive counts towards `maxReceiveCount`. The framework
 * must delete nothing itself. `consumeSqs` and `wrapSqs` also keep messages hidden while they run.
 *
 * @throws what the client throws, or an error if SQS refuses: the message returns after its visibility timeout.
 *
 * @example
 * ```ts
 * import type { Message } from '@aws-sdk/client-sqs'
 * import { fromSqsMessage, settleSqs } from '@onceward/sqs'
 *
 * export async function handle(message: Message): Promise<void> {
 *   const settlement = await billing.process(fromSqsMessage(message, queueUrl))
 *   await settleSqs(sqs, message, settlement, { queueUrl })
 * }
 * ```
 */
export async function settleSqs(
  client: SqsClient,
  message: Message,
  settlement: Settlement,
  options: SettleSqsOptions,
): Promise<void> {
  refuseUnknownNames('settleSqs', options, { queueUrl: true, deadLetter: true })
  const { deadLetter = 'redrive', queueUrl } = options
  const { ReceiptHandle: handle } = message
  const isKnown = ['redrive', 'inbox'].includes(deadLetter)
  if (!isKnown || handle === undefined || typeof queueUrl !== 'string') throw unsettled()
  const api = createSqsApi(client, queueUrl, systemRuntime)
  const isOver =
    settlement.kind === 'ack' || (settlement.kind === 'dead-letter' && deadLetter === 'inbox')
  const refused = isOver
    ? await api.remove([handle])
    : await api.changeVisibility([
        { handle, seconds: hiddenSeconds(message, settlement, queueUrl) },
      ])
  const [refusal] = refused
  if (refusal !== undefined) {
    throw new Error(`SQS refused to settle a message (${refusal.code}). It will return.`)
  }
}

/** As the default visibility timeout of `consumeSqs`, whose messages return when it ends. */
const ABANDONED_MS = 30_000

function hiddenSeconds(message: Message, settlement: Settlement, queueUrl: string): number {
  if (settlement.kind === 'abandon' && settlement.reason === 'closing') return 0
  // At least a second: 0 would be a hot loop.
  return Math.max(1, visibilitySeconds(hiddenMs(message, settlement, queueUrl), 0))
}

function hiddenMs(message: Message, settlement: Settlement, queueUrl: string): number {
  if (settlement.kind === 'dead-letter') return laterMs(systemRuntime, DEAD)
  // The lease was lost or the commit is unknown. The next delivery finds out.
  if (settlement.kind !== 'defer') return ABANDONED_MS
  return deferredMs(systemRuntime, waitingOf(message, queueUrl), settlement)
}

/** Of a message that may have been received without its attributes. */
function waitingOf(message: Message, queueUrl: string): Waiting {
  return message.Attributes === undefined ? {} : toDelivery(message, queueUrl)
}

function unsettled(): ConfigurationError {
  return new ConfigurationError(
    "settleSqs expected a received message with its ReceiptHandle, and { queueUrl, deadLetter: 'redrive' | 'inbox' }.",
  )
}
