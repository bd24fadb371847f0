import type { Message } from '@aws-sdk/client-sqs'
import { ConfigurationError, type Logger, type Settlement } from '@onceward/core'
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
import type { Received } from './delivery.ts'
import { classifyError } from './errors.ts'
import type { Settings } from './options.ts'
import { VisibilityTicker, visibilitySeconds } from './visibility.ts'

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
  defer: (context, received, { reason, until }) => {
    const leastMs = reason === 'in-progress' ? busyMs(received) : 0
    const waitMs = Math.max(leastMs, until - context.runtime.now())
    const extraMs =
      reason === 'store-down'
        ? Math.max(0, outageMs(context, received) - waitMs)
        : jitterMs(context, received, waitMs)
    return hide(context, received, waitMs + extraMs)
  },
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
  if (place.kind === 'broker') return hide(context, received, laterMs(context))
  if (place.kind === 'publish') {
    const answer = await port.publishDeadLetter(settlement, place.publish)
    if (answer.kind === 'retry') {
      if (answer.error !== undefined) notPublished(context, received, answer.error)
      return hide(context, received, laterMs(context))
    }
  }
  return remove(context, received)
}

/** When a dead message is received again: soon, but not in a hot loop. */
const laterMs = ({ runtime }: SettleContext): number => 5_000 + runtime.random() * 25_000

/**
 * Every receive counts towards `maxReceiveCount`, also while the store is down. At least half a minute between two
 * receives keeps an outage from filling the dead-letter queue.
 */
const outageMs = ({ runtime }: SettleContext, { delivery }: Received): number =>
  30_000 + (delivery.orderingKey === undefined ? runtime.random() * 90_000 : 0)

/**
 * An event that runs elsewhere is received again after two seconds and then every four, or later if the guard says
 * so. Shorter waits would use up `maxReceiveCount`.
 */
const busyMs = ({ delivery: { deliveryCount } }: Received): number =>
  deliveryCount === 1 ? 2_000 : 4_000

/** Jitter only delays: a message that comes before its time costs a receive. Messages of a group keep one time. */
function jitterMs({ runtime }: SettleContext, received: Received, wantedMs: number): number {
  if (received.delivery.orderingKey !== undefined) return 0
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

/** A dead message that is left to the redrive policy returns after this time, ms. */
const REDRIVE_MS = 30_000

/**
 * Settles a message whose loop a framework owns:
 * `await settleSqs(client, message, await guard.process(fromSqsMessage(message, queueUrl)), { queueUrl })`.
 *
 * What is done is deleted. Everything else is hidden until it is due, as the settlement says. The framework must delete
 * nothing itself. `consumeSqs` and `wrapSqs` also keep messages hidden while they run.
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
  { ReceiptHandle: handle }: Message,
  settlement: Settlement,
  options: SettleSqsOptions,
): Promise<void> {
  refuseUnknownNames('settleSqs', options, { queueUrl: true, deadLetter: true })
  const { deadLetter = 'redrive', queueUrl } = options
  const isKnown = ['redrive', 'inbox'].includes(deadLetter)
  if (!isKnown || handle === undefined || typeof queueUrl !== 'string') throw unsettled()
  const api = createSqsApi(client, queueUrl, systemRuntime)
  const { kind } = settlement
  const isOver = kind === 'ack' || (kind === 'dead-letter' && deadLetter === 'inbox')
  const refused = isOver
    ? await api.remove([handle])
    : await api.changeVisibility([{ handle, seconds: visibilitySeconds(hiddenMs(settlement), 0) }])
  const [refusal] = refused
  if (refusal !== undefined) {
    throw new Error(`SQS refused to settle a message (${refusal.code}). It will return.`)
  }
}

function hiddenMs(settlement: Settlement): number {
  if (settlement.kind === 'dead-letter') return REDRIVE_MS
  if (settlement.kind === 'abandon' && settlement.reason === 'closing') return 0
  // At least a second: 0 would be a hot loop.
  return settlement.kind === 'defer' ? Math.max(1_000, settlement.until - Date.now()) : 1_000
}

function unsettled(): ConfigurationError {
  return new ConfigurationError(
    "settleSqs expected a received message with its ReceiptHandle, and { queueUrl, deadLetter: 'redrive' | 'inbox' }.",
  )
}
