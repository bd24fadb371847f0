import { ALONE_WAIT_MS } from '../concurrency/alone-lock.ts'
import type { MaybeAsync } from '../concurrency/maybe-async.ts'
import { type Identified, identify } from '../identity/identify.ts'
import type { Claimed } from '../lease/claim.ts'
import type { EventId, EventKey, Fingerprint } from '../model/brands.ts'
import type { DeadLetterRef } from '../model/dead-letter.ts'
import type { Delivery } from '../model/delivery.ts'
import { describeError, InvalidPayloadError } from '../model/errors.ts'
import type { InFlightEvent } from '../model/in-flight-event.ts'
import type { MessageCounts } from '../model/inbox.ts'
import type { Runtime } from '../model/runtime.ts'
import type { ResolvedOptions } from '../options/resolved-options.ts'
import { WrongAnswerError } from '../options/wrong-answer.ts'
import type { Outcome } from '../settlement/outcome.ts'
import { retryDelayMs } from '../settlement/retry-rule.ts'
import { type Processing, STORE_DOWN_MS, storeFailure } from './processing.ts'

/**
 * The deliveries of one event and payload in one call. The first one leads; its copies are settled by its outcome. The
 * same key with another payload is received for itself, and so is each delivery without a key.
 */
export interface Received {
  /** Mutable: claiming its lease adds the lease. */
  member: InFlightEvent
  readonly copies: readonly InFlightEvent[]
  /** False if the policy for missing keys is `unguarded`. */
  readonly hasKey: boolean
  /** Its key came before in the same call, with another payload. */
  readonly isOtherPayload?: boolean | undefined
  /** The lease store's answer, once it was asked. */
  claimed?: Claimed
  /** Ends the flight of the event in this process. Undefined before it began. */
  endFlight?: () => void
  /** It has its outcome. */
  isOver?: true
}

/** The result of step 1 for the deliveries of one call. */
export interface ReceivedDeliveries {
  /** In delivery order. */
  readonly events: readonly Received[]
  readonly decided: readonly Decided[]
}

/** A delivery whose outcome is known after step 1: skipped, refused, or to be identified later. */
export interface Decided {
  readonly index: number
  readonly outcome: Outcome
  readonly key: string | undefined
  /** The lane in which later events wait for the message, if it is deferred unread. */
  readonly lane?: string | undefined
}

export type ReceiveContext = Pick<Processing, 'options' | 'stores' | 'breaker' | 'isResultRead'>

/** Step 1 for all deliveries of a call: identify, record refused messages, group the copies of one event. */
export function receive(
  context: ReceiveContext,
  deliveries: readonly Delivery[],
): MaybeAsync<ReceivedDeliveries> {
  const identifying = identifyAll(context, deliveries)
  return identifying instanceof Promise
    ? identifying.then((all) => sort(context, deliveries, all))
    : sort(context, deliveries, identifying)
}

interface Group extends Received {
  readonly copies: InFlightEvent[]
  /** Of the first one of a key: those with other payloads. */
  others?: Map<Fingerprint, Group>
}

function sort(
  context: ReceiveContext,
  deliveries: readonly Delivery[],
  all: readonly Seen[],
): MaybeAsync<ReceivedDeliveries> {
  const { options } = context
  const events: Group[] = []
  /** A call with one delivery has no copies. */
  const byId = all.length > 1 ? new Map<EventId, Group>() : undefined
  const decided: Decided[] = []
  let isRefusing = false
  for (let index = 0; index < all.length; index++) {
    const identified = all[index] as Seen
    const delivery = deliveries[index] as Delivery
    switch (identified.kind) {
      case 'identified': {
        const member = toInFlight(context, { index, delivery }, identified)
        const first = byId?.get(member.event.id)
        const same = first && groupOf(first, member)
        if (same !== undefined) same.copies.push(member)
        else {
          const isOtherPayload = first !== undefined
          const group: Group = { member, copies: [], hasKey: true, isOtherPayload }
          events.push(group)
          if (first === undefined) byId?.set(member.event.id, group)
          else {
            first.others ??= new Map()
            first.others.set(member.event.fingerprint, group)
          }
        }
        break
      }
      case 'unguarded': {
        const member = eventWithoutKey(options.runtime, { index, delivery }, identified)
        events.push({ member, copies: [], hasKey: false })
        break
      }
      case 'skipped':
        decided.push({ index, outcome: { kind: 'skipped' }, key: undefined })
        break
      case 'retry':
        decided.push({
          ...{ index, outcome: later(options, delivery, identified), key: undefined },
          lane: laneOf(options, delivery),
        })
        break
      case 'decided':
        decided.push({
          ...{ index, outcome: identified.outcome, key: undefined },
          lane: laneOf(options, delivery),
        })
        break
      case 'refused':
        isRefusing = true
        break
    }
  }
  const received = { events, decided }
  if (!isRefusing) return received
  return refuse(context, deliveries, all).then((refused) => ({
    ...received,
    decided: [...decided, ...refused],
  }))
}

/** Makes an event for a delivery without a key: each such delivery is an event of its own. */
export function eventWithoutKey(
  runtime: Runtime,
  { delivery, index }: Placed,
  { orderingKey: lane, payload }: Extract<Identified, { kind: 'unguarded' }>,
): InFlightEvent {
  const id = runtime.uuid() as EventId
  const event = { id, key: '' as EventKey, fingerprint: 0n as Fingerprint, delivery }
  return { index, event, payload, lane, suspect: false }
}

/** The group of the member's payload, if there is one. */
function groupOf(first: Group, { event: { fingerprint } }: InFlightEvent): Group | undefined {
  return first.member.event.fingerprint === fingerprint ? first : first.others?.get(fingerprint)
}

interface Placed {
  readonly index: number
  readonly delivery: Delivery
}

function toInFlight(
  { isResultRead, options: { observe } }: ReceiveContext,
  { delivery, index }: Placed,
  { event, orderingKey: lane, payload }: Extract<Identified, { kind: 'identified' }>,
): InFlightEvent {
  const timings = observe === undefined ? undefined : {}
  return { index, event, payload, lane, suspect: isSuspect(delivery), isResultRead, timings }
}

/** The lane of a message that could not be read. A custom lane is known only after that. */
function laneOf(
  { orderingKeyChosen }: ResolvedOptions,
  { orderingKey }: Delivery,
): string | undefined {
  return orderingKeyChosen ? undefined : orderingKey
}

/** A consumer that keeps its messages in memory would read them again at once, in a hot loop. */
const SOONEST_MS = 100

/** Such a message has no stored state. Only the broker counts its attempts and dead-letters it. */
function later(
  options: ResolvedOptions,
  delivery: Delivery,
  { error }: Extract<Identified, { kind: 'retry' }>,
): Outcome {
  reportWrongAnswer(options, error)
  const attempt = delivery.deliveryCount ?? 1
  const delayMs = Math.max(SOONEST_MS, retryDelayMs(options, attempt, error))
  return { kind: 'failed', attempt, delayMs, error, cause: 'identify-failed' }
}

/** Every message shows the mistake. One log line reports it. */
export function reportWrongAnswer({ reportOnce }: ResolvedOptions, error: unknown): void {
  if (!(error instanceof WrongAnswerError)) return
  const { option } = error
  reportOnce(
    'error',
    { option, err: describeError(error) },
    `${option} answered a value of the wrong type and its messages are retried: fix the function`,
  )
}

/** Writes the durable record before the outcome. */
async function refuse(
  context: ReceiveContext,
  deliveries: readonly Delivery[],
  all: readonly Seen[],
): Promise<readonly Decided[]> {
  const refused = all.flatMap((identified, index) =>
    identified.kind === 'refused' ? [{ index, ...identified }] : [],
  )
  let refs: readonly (DeadLetterRef | undefined)[] = []
  try {
    const refusals = refused.map(({ error, index, key, reason }) => {
      return { delivery: deliveries[index] as Delivery, reason, error, key }
    })
    const { engine } = context.stores
    // The caller gets the refusal as its answer.
    if (engine !== undefined && context.options.callerRetries === undefined) {
      refs = await engine.session.refuse(refusals)
      context.breaker.succeeded()
    }
  } catch (error) {
    const outcome = storeFailure(context, error)
    return refused.map(({ index, key }) => {
      return { index, key, outcome, lane: laneOf(context.options, deliveries[index] as Delivery) }
    })
  }
  return refused.map(({ error, index, key, reason }, n) => {
    return { index, key, outcome: { kind: 'dead', reason, attempt: 0, error, ref: refs[n] } }
  })
}

/** What step 1 found, or the outcome of a message that must not be read now. */
export type Seen = Identified | { readonly kind: 'decided'; readonly outcome: Outcome }

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
  context: ReceiveContext,
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
  readonly context: ReceiveContext
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
