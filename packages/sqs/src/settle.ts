import type { Message } from '@aws-sdk/client-sqs'
import { ConfigurationError, type Delivery, type Logger, type Settlement } from '@onceward/core'
import {
  andThen,
  type DeadLetterPlace,
  type GuardPort,
  type MaybeAsync,
  refuseUnknownNames,
  type Settle,
  settleBy,
  type Verbs,
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
  readonly logger: Logger
  readonly queueUrl: string
  readonly visibilityMs: number
  readonly ticker: Pick<VisibilityTicker, 'hold' | 'release' | 'stop'>
  readonly deletes: Pick<BatchRequests, 'add'>
  readonly changes: Pick<BatchRequests, 'add'>
  /** Sets the visibility to 0; on FIFO queues from the last message to the first. */
  readonly returns: Pick<BatchRequests, 'add'>
  readonly place: DeadLetterPlace
  /** Settlements that SQS refused; their messages return. */
  readonly counts: { settleFailures: number }
}

export function createSettleContext(
  port: GuardPort,
  api: SqsApi,
  settings: Settings,
): SettleContext {
  const { runtime, logger } = port
  const { queueUrl, visibilityMs, renewMs, fifo } = settings
  const change = { runtime, call: api.changeVisibility }
  const changes = new BatchRequests(change)
  return {
    port,
    runtime,
    logger,
    queueUrl,
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
    counts: { settleFailures: 0 },
  }
}

/**
 * When the message becomes visible, on the monotonic clock; undefined when it is deleted or visible. A message
 * whose settlement failed becomes visible when its timeout ends; then the store decides: duplicate, dead, or run again.
 */
export type SettleAnswer = number | undefined

const VERBS: Verbs<SettleContext, Received, SettleAnswer> = {
  ack: (context, received) => remove(context, received),
  defer: (context, received, settlement) =>
    hide(context, received, deferredMs(context.runtime, received.delivery, settlement)),
  'dead-letter': deadLetter,
  abandon: async (context, received, { reason }) => {
    if (reason === 'closing') return returnUnstarted(context, received)
    // The lease was lost or the commit is unknown. The next delivery finds out.
    const hiddenUntilMs = await context.ticker.release(received)
    const { runtime, visibilityMs } = context
    // An outage of the store may have hidden the message for minutes.
    const isLong = hiddenUntilMs > runtime.monotonic() + visibilityMs
    return isLong ? hide(context, received, visibilityMs) : hiddenUntilMs
  },
}

/** Carries out a settlement. */
export const settle: Settle<SettleContext, Received, SettleAnswer> = settleBy(
  VERBS,
  (context, received, { settlement, error }) => {
    refused(context, received, { verb: settlement.kind, code: classifyError(error).text })
    return context.ticker.release(received)
  },
)

/** Makes a message that was not started visible at once. */
export async function returnUnstarted(
  context: SettleContext,
  received: Received,
): Promise<SettleAnswer> {
  const expiresAtMs = await context.ticker.release(received)
  const { handle, sequence } = received
  const answer = await context.returns.add({ handle, sequence, seconds: 0, expiresAtMs })
  return settled(context, received, { verb: 'give back', answer }) ? undefined : expiresAtMs
}

/** Without an async function, because every message of a healthy queue is removed. */
function remove(context: SettleContext, received: Received): MaybeAsync<SettleAnswer> {
  return andThen(context.ticker.release(received), (expiresAtMs) => {
    const { handle, sequence } = received
    // Tried again in any case: after a long poll the message may be hidden for longer than is known, and to delete a
    // processed message late does no harm.
    const entry = { handle, sequence, seconds: 0, expiresAtMs: Number.POSITIVE_INFINITY }
    const removing = context.deletes.add(entry)
    return removing.then((answer) =>
      settled(context, received, { verb: 'delete', answer }) ? undefined : expiresAtMs,
    )
  })
}

async function hide(
  context: SettleContext,
  received: Received,
  wantedMs: number,
): Promise<SettleAnswer> {
  const expiresAtMs = await context.ticker.release(received)
  const nowMs = context.runtime.monotonic()
  // At least a second: 0 would be a hot loop.
  const seconds = Math.max(1, visibilitySeconds(wantedMs, nowMs - received.receivedAtMs))
  const { handle, sequence } = received
  const answer = await context.changes.add({ handle, sequence, seconds, expiresAtMs })
  return settled(context, received, { verb: 'defer', answer })
    ? nowMs + seconds * 1_000
    : expiresAtMs
}

/** Publishes the dead letter and then deletes the original. A crash between the two publishes it again. */
async function deadLetter(
  context: SettleContext,
  received: Received,
  settlement: Settlement,
): Promise<SettleAnswer> {
  const { place, port } = context
  if (place.kind === 'broker') return hide(context, received, laterMs(context.runtime))
  if (place.kind === 'publish') {
    const answer = await port.publishDeadLetter(settlement, place.publish)
    if (answer.kind === 'retry') {
      if (answer.error !== undefined) notPublished(context, received, answer.error)
      return hide(context, received, laterMs(context.runtime))
    }
  }
  return remove(context, received)
}

/** When a dead message is received again: soon, but not in a hot loop. */
const laterMs = (runtime: Pick<Runtime, 'random'>): number => 5_000 + runtime.random() * 25_000

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
  const waitMs = reason === 'in-progress' ? Math.max(dueMs, busyMs(delivery)) : dueMs
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
const busyMs = ({ deliveryCount }: Waiting): number => (deliveryCount === 1 ? 2_000 : 4_000)

/** Jitter only delays: a message that comes before its time costs a receive. Messages of a group keep one time. */
function jitterMs(
  runtime: Pick<Runtime, 'random'>,
  { orderingKey }: Waiting,
  wantedMs: number,
): number {
  if (orderingKey !== undefined) return 0
  return runtime.random() * Math.min(Math.max(0, wantedMs) * 0.2, 5_000)
}

interface Carried {
  readonly verb: string
  readonly answer: EntryAnswer
}

function settled(context: SettleContext, received: Received, { verb, answer }: Carried): boolean {
  if (answer.kind === 'settled') return true
  refused(context, received, { verb, code: answer.code })
  return false
}

function refused(
  context: SettleContext,
  received: Received,
  why: { readonly verb: string; readonly code: string },
): void {
  context.counts.settleFailures += 1
  const fields = { queue: context.queueUrl, messageId: received.message.MessageId, ...why }
  context.logger.warn(fields, 'a settlement was not carried out; the message will return')
}

function notPublished(context: SettleContext, received: Received, error: unknown): void {
  const fields = { queue: context.queueUrl, messageId: received.message.MessageId, err: error }
  context.logger.error(fields, 'a dead letter could not be published; it will be tried again')
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
  if (settlement.kind === 'dead-letter') return laterMs(systemRuntime)
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
