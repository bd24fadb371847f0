import { ALONE_WAIT_MS } from '../concurrency/alone-lock.ts'
import type { Breaker } from '../concurrency/breaker.ts'
import { andThen, type MaybeAsync } from '../concurrency/maybe-async.ts'
import { ReadFailedError } from '../identity/call-user-function.ts'
import type { Delivery } from '../model/delivery.ts'
import { InvalidPayloadError } from '../model/errors.ts'
import type { InboxSession, MessageCounts } from '../model/inbox.ts'
import type { ResolvedOptions } from '../options/resolved-options.ts'
import type { Outcome } from '../settlement/outcome.ts'
import { decideRetry, retryDelayMs } from '../settlement/retry-rule.ts'
import { STORE_DOWN_MS, storeFailure } from '../settlement/store-down.ts'
import { deliveryNameOf } from '../support/adapter-registry.ts'
import type { LocalMessageCounts } from '../support/message-counts.ts'
import { type Identified, identify } from './identify.ts'

export interface ReadContext {
  readonly options: ResolvedOptions
  readonly breaker: Breaker
  readonly stores: {
    /** Undefined without an inbox. */
    readonly engine: { readonly session: InboxSession<unknown> } | undefined
    readonly localCounts: LocalMessageCounts
  }
}

/** What step 1 found, or the outcome of a message that must not be read now. */
export type Seen = Identified | { readonly kind: 'decided'; readonly outcome: Outcome }

/** A message that was read beside the one that ended the process must be read alone at least once. */
const FEWEST_READS = 2

/** The broker may have delivered the message before. An earlier run may then have started and left no record. */
export function isSuspect(delivery: Delivery): boolean {
  return delivery.redelivered === true || (delivery.deliveryCount ?? 1) > 1
}

export interface ReadRules {
  /** Whether a read of the message is counted before it starts. */
  readonly isSuspect: (delivery: Delivery) => boolean
  /** Whether an event counts its own attempts, so that a failed read of the message is one of them. */
  readonly isEvent: (delivery: Delivery) => boolean
}

const OF_BROKERS: ReadRules = { isSuspect, isEvent: () => false }

/**
 * Step 1 for several messages. A user's function may end the process by what it does with a message, for example by
 * running out of memory, and then no event exists yet whose attempts could be counted. So a message that may have been
 * delivered before is counted by its own hash first. First deliveries cost nothing, unless their read fails: then it is
 * counted, and the message is dead-lettered when its attempts are spent.
 */
export function identifyAll(
  context: ReadContext,
  deliveries: readonly Delivery[],
  rules: ReadRules = OF_BROKERS,
): MaybeAsync<readonly Seen[]> {
  const { options, stores } = context
  const counts = stores.engine?.session.messageCounts
  const reading =
    counts !== undefined && options.readsByUser && deliveries.some(rules.isSuspect)
      ? identifyCounted({ context, counts, rules }, deliveries)
      : identifyEach(options, deliveries)
  return andThen(reading, (seen) => countFailed(context, { deliveries, seen, rules }))
}

function identifyEach(
  options: ResolvedOptions,
  deliveries: readonly Delivery[],
): MaybeAsync<readonly Identified[]> {
  const identifying: MaybeAsync<Identified>[] = []
  let isAsync = false
  for (const delivery of deliveries) {
    const identified = identify(delivery, options)
    if (identified instanceof Promise) isAsync = true
    identifying.push(identified)
  }
  return isAsync ? Promise.all(identifying) : (identifying as readonly Identified[])
}

interface Counting {
  readonly context: ReadContext
  readonly counts: MessageCounts
  readonly rules: ReadRules
}

async function identifyCounted(
  counting: Counting,
  deliveries: readonly Delivery[],
): Promise<readonly Seen[]> {
  const { context, counts, rules } = counting
  const suspects = deliveries.filter(rules.isSuspect)
  const seen = new Map<Delivery, Seen>()
  let together: readonly Delivery[] = deliveries
  let alone: readonly Delivery[] = []
  try {
    const started = await counts.start(suspects)
    alone = suspects.filter((_, index) => started[index] === 'left')
    together = deliveries.filter((delivery) => !alone.includes(delivery))
  } catch (error) {
    const outcome = storeFailure(context, error)
    for (const suspect of suspects) seen.set(suspect, { kind: 'decided', outcome })
    together = deliveries.filter((delivery) => !rules.isSuspect(delivery))
  }
  const read = await identifyEach(context.options, together)
  for (const [index, delivery] of together.entries()) seen.set(delivery, read[index] as Identified)
  // Before any handler starts: a handler that ends the process is counted as an attempt of its event.
  const ended = (delivery: Delivery, at: number): boolean =>
    rules.isSuspect(delivery) && !isFailed(rules, delivery, read[at] as Identified)
  await endCounts(counting, together.filter(ended))
  if (alone.length > 0) await identifyAlone(counting, alone, seen)
  return deliveries.map((delivery) => seen.get(delivery) as Seen)
}

/** A count that stays behind only makes the next delivery of its message be read alone. */
async function endCounts(
  { context, counts }: Omit<Counting, 'rules'>,
  ended: readonly Delivery[],
): Promise<void> {
  if (ended.length === 0) return
  try {
    await counts.end(ended)
  } catch (error) {
    storeFailure(context, error)
  }
}

/**
 * Each count comes directly before the message is read, so a message that ends the process burns its own count only. The
 * lock is held for one read at a time, because the runs of all guards wait for it.
 */
async function identifyAlone(
  counting: Counting,
  deliveries: readonly Delivery[],
  seen: Map<Delivery, Seen>,
): Promise<void> {
  const { runtime } = counting.context.options
  let isBusy = false
  for (const delivery of deliveries) {
    // Runs that did not end while one message waited would hold up each of the others for as long.
    const limit = { runtime, ms: ALONE_WAIT_MS }
    const release = isBusy ? undefined : await runtime.alone.exclusive({ limit })
    if (release === undefined) {
      isBusy = true
      seen.set(delivery, { kind: 'decided', outcome: WAITING_ALONE })
      continue
    }
    try {
      seen.set(delivery, await identifyCountedAlone(counting, delivery))
    } finally {
      release()
    }
  }
}

const WAITING_ALONE: Outcome = {
  kind: 'in-progress',
  delayMs: STORE_DOWN_MS,
  cause: 'waiting-alone',
}

async function identifyCountedAlone(
  { context, counts, rules }: Counting,
  delivery: Delivery,
): Promise<Seen> {
  const { options } = context
  try {
    const reads = await counts.startAlone(delivery)
    if (reads > Math.max(FEWEST_READS, options.retry.attempts)) {
      // The count is that of all equal messages. Each of them has its own reads.
      if (deliveryNameOf(delivery)?.isStored === false) await counts.end([delivery])
      return endless(reads - 1)
    }
    const identified = await identify(delivery, options)
    if (!isFailed(rules, delivery, identified)) await counts.end([delivery])
    return identified
  } catch (error) {
    return { kind: 'decided', outcome: storeFailure(context, error) }
  }
}

/** Its count stays, so that a redelivery of the message is refused without being read. */
function endless(reads: number): Identified {
  const error = new InvalidPayloadError(
    `This message was read ${reads} times, and each read ended the process or failed, before its event was known. Look at what \`decode\`, \`schema\` and the resolvers do with it, fix them, then replay the message.`,
  )
  return { kind: 'refused', reason: 'no-verdict', error }
}

/** Whether the read of the message failed and is counted by the message. */
const isFailed = (
  { isEvent }: ReadRules,
  delivery: Delivery,
  seen: Seen,
): seen is Extract<Identified, { kind: 'retry' }> =>
  seen.kind === 'retry' && seen.isCounted && !isEvent(delivery)

interface Reads {
  readonly deliveries: readonly Delivery[]
  readonly seen: readonly Seen[]
  readonly rules: ReadRules
}

/** Counts the reads that failed. Where a caller waits, it counts them itself, by how often it asks. */
function countFailed(context: ReadContext, reads: Reads): MaybeAsync<readonly Seen[]> {
  const { options, stores } = context
  const { deliveries, rules, seen } = reads
  if (options.callerRetries !== undefined) return seen
  const failed = deliveries.filter((delivery, at) => isFailed(rules, delivery, seen[at] as Seen))
  const { localCounts } = stores
  if (failed.length === 0 && localCounts.size === 0) return seen
  const counts = stores.engine?.session.messageCounts
  if (counts !== undefined) return failed.length === 0 ? seen : endFailed(context, counts, reads)
  return countHere(context, localCounts.of(options.consumer), reads)
}

/** No operator replays what this process alone has counted, so the count of a message ends with its dead letter. */
async function countHere(
  context: ReadContext,
  local: MessageCounts,
  reads: Reads,
): Promise<readonly Seen[]> {
  const seen = await endFailed(context, local, reads)
  await local.end(reads.deliveries.filter((_, at) => seen[at]?.kind !== 'decided'))
  return seen
}

async function endFailed(
  context: ReadContext,
  counts: MessageCounts,
  { deliveries, rules, seen }: Reads,
): Promise<readonly Seen[]> {
  const isOne = (at: number): boolean =>
    isFailed(rules, deliveries[at] as Delivery, seen[at] as Seen)
  const failed = deliveries.filter((_, at) => isOne(at))
  try {
    const times = await counts.failed(failed)
    const attempts = new Map(failed.map((delivery, index) => [delivery, times[index] as number]))
    return deliveries.map((delivery, at) => {
      const one = seen[at] as Seen
      if (!isFailed(rules, delivery, one)) return one
      return failedRead(context.options, one, attempts.get(delivery) as number)
    })
  } catch (error) {
    const outcome = storeFailure(context, error)
    return seen.map((one, at) => (isOne(at) ? { kind: 'decided', outcome } : one))
  }
}

/** Like a failed run of the handler: retried with back-off until the attempts are spent. The count stays until a replay. */
function failedRead(
  options: ResolvedOptions,
  { error }: Extract<Identified, { kind: 'retry' }>,
  attempt: number,
): Seen {
  const decision = decideRetry(options, attempt, thrownWhileReading(error))
  return decision.kind === 'bury'
    ? { kind: 'refused', reason: decision.reason, error, attempt }
    : { kind: 'decided', outcome: readLater(options, attempt, error) }
}

/** What the user's function threw. */
export const thrownWhileReading = (error: unknown): unknown =>
  error instanceof ReadFailedError ? error.cause : error

/** A consumer that keeps its messages in memory would read them again at once, in a hot loop. */
const SOONEST_MS = 100

/** The outcome of a message that cannot be read yet. */
export function readLater(options: ResolvedOptions, attempt: number, error: unknown): Outcome {
  const delayMs = Math.max(SOONEST_MS, retryDelayMs(options, attempt, error))
  return { kind: 'failed', attempt, delayMs, error, cause: 'identify-failed' }
}
