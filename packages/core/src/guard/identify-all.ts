import { ALONE_WAIT_MS } from '../concurrency/alone-lock.ts'
import type { MaybeAsync } from '../concurrency/maybe-async.ts'
import { type Identified, identify } from '../identity/identify.ts'
import type { Delivery } from '../model/delivery.ts'
import { InvalidPayloadError } from '../model/errors.ts'
import type { MessageCounts } from '../model/inbox.ts'
import type { ResolvedOptions } from '../options/resolved-options.ts'
import type { Outcome } from '../settlement/outcome.ts'
import { type Processing, STORE_DOWN_MS, storeFailure } from './processing.ts'

/** What step 1 found, or the outcome of a message that must not be read now. */
export type Seen = Identified | { readonly kind: 'decided'; readonly outcome: Outcome }

type Context = Pick<Processing, 'options' | 'stores' | 'breaker'>

/** A message that was read beside the one that ended the process must be read alone at least once. */
const FEWEST_READS = 2

/** The broker may have delivered the message before. An earlier run may then have started and left no record. */
export function isSuspect(delivery: Delivery): boolean {
  return delivery.redelivered === true || (delivery.deliveryCount ?? 1) > 1
}

/**
 * Step 1 for several messages. A user's function may end the process by what it does with a message, for example by
 * running out of memory, and then no event exists yet whose attempts could be counted. So a message that may have been
 * delivered before is counted by its own hash first. First deliveries cost nothing.
 */
export function identifyAll(
  context: Context,
  deliveries: readonly Delivery[],
  isCounted: (delivery: Delivery) => boolean = isSuspect,
): MaybeAsync<readonly Seen[]> {
  const { options, stores } = context
  const counts = stores.engine?.session.messageCounts
  return counts !== undefined && options.readsByUser && deliveries.some(isCounted)
    ? identifyCounted({ context, counts }, deliveries, isCounted)
    : identifyEach(options, deliveries)
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
  readonly context: Context
  readonly counts: MessageCounts
}

async function identifyCounted(
  counting: Counting,
  deliveries: readonly Delivery[],
  isCounted: (delivery: Delivery) => boolean,
): Promise<readonly Seen[]> {
  const { context, counts } = counting
  const suspects = deliveries.filter(isCounted)
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
    together = deliveries.filter((delivery) => !isCounted(delivery))
  }
  const read = await identifyEach(context.options, together)
  for (const [index, delivery] of together.entries()) seen.set(delivery, read[index] as Identified)
  // Before any handler starts: a handler that ends the process is counted as an attempt of its event.
  await endCounts(counting, together.filter(isCounted))
  if (alone.length > 0) await identifyAlone(counting, alone, seen)
  return deliveries.map((delivery) => seen.get(delivery) as Seen)
}

/** A count that stays behind only makes the next delivery of its message be read alone. */
async function endCounts({ context, counts }: Counting, ended: readonly Delivery[]): Promise<void> {
  if (ended.length === 0) return
  try {
    await counts.end(ended)
  } catch (error) {
    storeFailure(context, error)
  }
}

/** Each count comes directly before the message is read, so a message that ends the process burns its own count only. */
async function identifyAlone(
  counting: Counting,
  deliveries: readonly Delivery[],
  seen: Map<Delivery, Seen>,
): Promise<void> {
  const { runtime } = counting.context.options
  const release = await runtime.alone.exclusive({ limit: { runtime, ms: ALONE_WAIT_MS } })
  try {
    for (const delivery of deliveries) {
      seen.set(
        delivery,
        release === undefined
          ? {
              kind: 'decided',
              outcome: { kind: 'in-progress', delayMs: STORE_DOWN_MS, cause: 'waiting-alone' },
            }
          : await identifyCountedAlone(counting, delivery),
      )
    }
  } finally {
    release?.()
  }
}

async function identifyCountedAlone(
  { context, counts }: Counting,
  delivery: Delivery,
): Promise<Seen> {
  const { options } = context
  try {
    const reads = await counts.startAlone(delivery)
    if (reads > Math.max(FEWEST_READS, options.retry.attempts)) return endless(reads - 1)
    const identified = await identify(delivery, options)
    await counts.end([delivery])
    return identified
  } catch (error) {
    return { kind: 'decided', outcome: storeFailure(context, error) }
  }
}

/** Its count stays, so that a redelivery of the message is refused without being read. */
function endless(reads: number): Identified {
  const error = new InvalidPayloadError(
    `Reading this message ended the process ${reads} times, before its event was known. Look at what \`decode\`, \`schema\` and the resolvers do with it, fix them, then replay the message.`,
  )
  return { kind: 'refused', reason: 'no-verdict', error }
}
