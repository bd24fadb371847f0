import { ANY_LANE } from '../concurrency/lanes.ts'
import type { MaybeAsync } from '../concurrency/maybe-async.ts'
import type { EventId, EventKey, Fingerprint } from '../model/brands.ts'
import type { DeadLetterRef } from '../model/dead-letter.ts'
import type { Delivery } from '../model/delivery.ts'
import { describeError } from '../model/errors.ts'
import type { InFlightEvent } from '../model/in-flight-event.ts'
import type { Runtime } from '../model/runtime.ts'
import type { ResolvedOptions } from '../options/resolved-options.ts'
import { WrongAnswerError } from '../options/wrong-answer.ts'
import type { Outcome } from '../settlement/outcome.ts'
import { pausedOutcome } from '../settlement/paused.ts'
import { storeFailure } from '../settlement/store-down.ts'
import type { Identified } from './identify.ts'
import { identifyItems, type Parts } from './parts.ts'
import {
  identifyAll,
  isSuspect,
  type ReadContext,
  readLater,
  type Seen,
  thrownWhileReading,
} from './read.ts'

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
}

/** The result of step 1 for the deliveries of one call. */
export interface ReceivedDeliveries {
  /** In delivery order. */
  readonly events: readonly Received[]
  readonly decided: readonly Decided[]
  /** If a delivery was split. The indexes of events are then those of its parts. */
  readonly parts?: Parts | undefined
}

/** A delivery whose outcome is known after step 1: skipped, refused, or to be identified later. */
export interface Decided {
  readonly index: number
  readonly outcome: Outcome
  readonly key: string | undefined
  readonly type?: string | undefined
  /** The lane in which later events wait for the message, if it is deferred unread. */
  readonly lane?: string | typeof ANY_LANE | undefined
}

export interface ReceiveContext extends ReadContext {
  /** The caller reads the results of the handlers. */
  readonly isResultRead?: boolean | undefined
}

/** Step 1 for all deliveries of a call: identify, record refused messages, group the copies of one event. */
export function receive(
  context: ReceiveContext,
  deliveries: readonly Delivery[],
): MaybeAsync<ReceivedDeliveries> {
  const identifying = identifyAll(context, deliveries)
  return identifying instanceof Promise
    ? identifying.then((all) => splitAndSort(context, deliveries, all))
    : splitAndSort(context, deliveries, identifying)
}

function splitAndSort(
  context: ReceiveContext,
  deliveries: readonly Delivery[],
  all: readonly Seen[],
): MaybeAsync<ReceivedDeliveries> {
  const isSplit = context.options.split !== undefined && all.some(({ kind }) => kind === 'split')
  if (!isSplit) return sort(context, deliveries, all)
  return identifyItems(context, deliveries, all).then(async (parts) => ({
    ...(await sort(context, parts.deliveries, parts.seen)),
    parts,
  }))
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
        decided.push({ index, outcome: { kind: 'skipped' }, key: undefined, type: identified.type })
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
      case 'split':
        throw new Error('An item of a split delivery is not split again.')
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
  { delivery, index }: InCall,
  { orderingKey: lane, payload, type }: Extract<Identified, { kind: 'unguarded' }>,
): InFlightEvent {
  const id = runtime.uuid() as EventId
  const event = { id, key: '' as EventKey, fingerprint: 0n as Fingerprint, delivery }
  return { index, event, payload, type, lane, suspect: false }
}

/** The group of the member's payload, if there is one. */
function groupOf(first: Group, { event: { fingerprint } }: InFlightEvent): Group | undefined {
  return first.member.event.fingerprint === fingerprint ? first : first.others?.get(fingerprint)
}

interface InCall {
  readonly index: number
  readonly delivery: Delivery
}

function toInFlight(
  { isResultRead, options: { observe } }: ReceiveContext,
  { delivery, index }: InCall,
  { event, orderingKey: lane, payload, rounded, type }: Extract<Identified, { kind: 'identified' }>,
): InFlightEvent {
  const timings = observe === undefined ? undefined : {}
  const suspect = isSuspect(delivery)
  return { index, event, payload, type, lane, suspect, rounded, isResultRead, timings }
}

/** The lane of a message that could not be read. A lane of the user is known only after that. */
function laneOf(
  { orderingKeyChosen }: ResolvedOptions,
  { orderingKey }: Delivery,
): Decided['lane'] {
  return orderingKeyChosen ? ANY_LANE : orderingKey
}

/** Reads that nobody counts: a caller waits and gets the user's own error, or the function is wrong and not the message. */
function later(
  options: ResolvedOptions,
  delivery: Delivery,
  { error }: Extract<Identified, { kind: 'retry' }>,
): Outcome {
  reportWrongAnswer(options, error)
  const cause = options.callerRetries === undefined ? error : thrownWhileReading(error)
  return readLater(options, delivery.deliveryCount ?? 1, cause)
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
  let admitted = refused.length
  try {
    const refusals = refused.map(({ error, index, key, reason }) => {
      return { delivery: deliveries[index] as Delivery, reason, error, key }
    })
    const { engine } = context.stores
    // A caller gets the refusal as its answer. That of one item is no answer to the whole request.
    const isAnswer =
      context.options.callerRetries !== undefined &&
      !refusals.every(({ delivery }) => delivery.item !== undefined)
    if (engine !== undefined && !isAnswer) {
      const { session } = engine
      const reasons = refusals.map(({ reason }) => reason)
      admitted = await context.options.firstRefusals.admit(reasons, session.isProven?.bind(session))
      refs = await session.refuse(refusals.slice(0, admitted))
      context.breaker.succeeded()
    }
  } catch (error) {
    const outcome = storeFailure(context, error)
    return refused.map(({ index, key }) => {
      return { index, key, outcome, lane: laneOf(context.options, deliveries[index] as Delivery) }
    })
  }
  return refused.map(({ attempt = 0, error, index, key, reason, type }, n) => {
    if (n >= admitted) return { index, key, type, outcome: pausedOutcome(context.options) }
    return { index, key, type, outcome: { kind: 'dead', reason, attempt, error, ref: refs[n] } }
  })
}
