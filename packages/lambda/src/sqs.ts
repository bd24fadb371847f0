import { endsWithin, type Guard, type GuardPort, portOf } from '@onceward/core/adapter'
import { describeError } from '@onceward/core/edge'
import type { SqsMessage } from '@onceward/sqs/message'
import {
  createInvoke,
  type LambdaContext,
  leftMsOf,
  recordsOf,
  type Settled,
  throwIfUnfinished,
} from './invocation.ts'
import type { LambdaSqsOptions } from './options.ts'
import { toDelivery } from './sqs-delivery.ts'

/** What is used of an event of SQS. A pipe of EventBridge sends the records alone. */
export type LambdaSqsEvent = { readonly Records: readonly object[] } | readonly object[]

/** The messages that SQS must send again. */
export interface SqsBatchResponse {
  batchItemFailures: { itemIdentifier: string }[]
}

/** A function for an event source mapping of an SQS queue. */
export type LambdaSqsHandler = (
  event: LambdaSqsEvent,
  context?: LambdaContext,
) => Promise<SqsBatchResponse>

/**
 * The guard as a Lambda function behind an SQS queue: `export const handler = lambdaSqs(billing)`.
 *
 * Answers the messages that are not done, and SQS sends only those again. **The event source mapping must have
 * `ReportBatchItemFailures`**; without it SQS deletes all messages whatever the answer says, and failed ones are lost. On
 * a FIFO queue, the first message of a group that is not done and everything after it in that group are answered.
 * Duplicates, skipped messages and dead letters count as done.
 *
 * @throws {@link ConfigurationError} here for options that cannot work; by the function for events of other sources.
 *
 * @example
 * ```ts
 * import { lambdaSqs } from '@onceward/lambda'
 *
 * export const handler = lambdaSqs(billing)
 * ```
 */
export function lambdaSqs(guard: Guard, options: LambdaSqsOptions = {}): LambdaSqsHandler {
  const invoke = createInvoke('lambdaSqs', guard, options)
  const port = portOf(guard)
  const { changeVisibility, partialResponses = true } = options
  return async (event, context) => {
    const settled = await invoke(recordsOf('lambdaSqs', event).map(toDelivery), context)
    const unfinished = unfinishedOf(settled)
    if (changeVisibility !== undefined) {
      const limitMs = Math.min(CHANGES_MS, (leftMsOf(context) ?? Number.POSITIVE_INFINITY) / 2)
      await hide(port, unfinished, { change: changeVisibility, limitMs })
    }
    if (!partialResponses) throwIfUnfinished(settled)
    const ids = new Set(unfinished.map(({ delivery }) => delivery.messageId))
    // Without its id, a message cannot be answered.
    if (ids.has(undefined)) throwIfUnfinished(settled)
    return { batchItemFailures: [...ids].map((id) => ({ itemIdentifier: id as string })) }
  }
}

/** What is not done, and what follows it in its group: SQS must keep the order. */
function unfinishedOf(settled: readonly Settled[]): readonly Settled[] {
  const stopped = new Set<string | undefined>()
  return settled.filter(({ delivery: { orderingKey: group }, isDone }) => {
    if (isDone && !stopped.has(group)) return false
    if (group !== undefined) stopped.add(group)
    return true
  })
}

/** SQS: 12 hours. */
const LONGEST_VISIBILITY_MS = 43_200_000
/**
 * Longest wait for all changes of an invocation, ms, and at most half of what the invocation has left: the answer matters
 * more. A message whose change is late returns after its visibility timeout.
 */
const CHANGES_MS = 1_000

interface Hiding {
  readonly change: NonNullable<LambdaSqsOptions['changeVisibility']>
  readonly limitMs: number
}

async function hide(
  { logger, runtime }: GuardPort,
  unfinished: readonly Settled[],
  { change, limitMs }: Hiding,
): Promise<void> {
  const changing = unfinished.flatMap(({ delivery: { raw, source }, settlement }) => {
    const { ReceiptHandle: receiptHandle } = raw as SqsMessage
    if (settlement?.kind !== 'defer' || receiptHandle === undefined) return []
    const waitMs = Math.ceil(settlement.until - runtime.now())
    const visibilityMs = Math.min(Math.max(1_000, waitMs), LONGEST_VISIBILITY_MS)
    return [{ queueUrl: source.queue, receiptHandle, visibilityMs }]
  })
  const calls = Promise.allSettled(changing.map(async (each) => change(each)))
  const noteFailures = calls.then((ends) => {
    const errors = ends.flatMap((end) => (end.status === 'rejected' ? [end.reason] : []))
    if (errors.length === 0) return
    logger.warn(
      { failed: errors.length, err: describeError(errors[0]) },
      'changeVisibility failed: the messages return after the visibility timeout of the queue',
    )
  })
  await endsWithin(runtime, noteFailures, limitMs)
}
