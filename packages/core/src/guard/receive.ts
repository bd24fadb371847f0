import { andThen, isPromise, type MaybeAsync } from '../concurrency/maybe-async.ts'
import { type Identified, identify } from '../identity/identify.ts'
import type { EventId, EventKey, Fingerprint } from '../model/brands.ts'
import type { Delivery } from '../model/delivery.ts'
import type { InFlightEvent } from '../model/in-flight-event.ts'
import type { DeadLetterRef, InboxSession, Refusal } from '../model/inbox.ts'
import type { ResolvedOptions } from '../options/resolved-options.ts'
import type { Outcome } from '../settlement/outcome.ts'
import { retryDelayMs } from '../settlement/retry-rule.ts'

/** A delivery of the call in hand. */
export interface Arrival {
  readonly index: number
  readonly delivery: Delivery
}

/** Deliveries of one event in one call: the first leads, the others are judged by how it ended. */
export interface DeliveryGroup {
  readonly arrival: Arrival
  readonly member: InFlightEvent
  readonly followers: readonly { readonly arrival: Arrival; readonly member: InFlightEvent }[]
}

export interface Received {
  readonly groups: readonly DeliveryGroup[]
  /** No key and the policy `unguarded`. */
  readonly unguarded: readonly { readonly arrival: Arrival; readonly member: InFlightEvent }[]
  readonly settled: readonly {
    readonly arrival: Arrival
    readonly outcome: Outcome
    readonly key: string | undefined
  }[]
}

export interface ReceiveContext {
  readonly options: ResolvedOptions
  readonly session: InboxSession<unknown> | undefined
  /** The outcome of what could not be recorded. */
  readonly fault: (error: unknown) => Outcome
}

type Sighted = { readonly arrival: Arrival; readonly identified: Identified }

/** Step 1 for all deliveries of a call: identify, record what is refused, bring equal events together. */
export function receive(
  context: ReceiveContext,
  arrivals: readonly Arrival[],
): MaybeAsync<Received> {
  const { options } = context
  const identifying = arrivals.map(({ delivery }) => identify(delivery, options))
  const identified = identifying.some(isPromise)
    ? Promise.all(identifying)
    : (identifying as readonly Identified[])
  return andThen(identified, (all) => {
    const sighted = arrivals.map((arrival, index) => ({
      arrival,
      identified: all[index] as Identified,
    }))
    const refusing = sighted.some(isRefused) ? refuse(context, sighted) : []
    return andThen(refusing, (refused) => ({
      groups: toGroups(sighted),
      unguarded: sighted.flatMap((one) => toUnguarded(options, one)),
      settled: [...sighted.flatMap((one) => toSettled(options, one)), ...refused],
    }))
  })
}

function toGroups(sighted: readonly Sighted[]): readonly DeliveryGroup[] {
  const groups = new Map<
    string,
    { first: DeliveryGroup; followers: DeliveryGroup['followers'][number][] }
  >()
  for (const { arrival, identified } of sighted) {
    if (identified.kind !== 'identified') continue
    const member: InFlightEvent = {
      event: identified.event,
      payload: identified.payload,
      lane: identified.orderingKey,
      suspect: isSuspect(arrival.delivery),
    }
    const known = groups.get(member.event.id)
    if (known !== undefined) known.followers.push({ arrival, member })
    else {
      const followers: DeliveryGroup['followers'][number][] = []
      groups.set(member.event.id, { first: { arrival, member, followers }, followers })
    }
  }
  return [...groups.values()].map(({ first }) => first)
}

/** The broker may have delivered it before: an earlier run may have begun and left nothing. */
function isSuspect(delivery: Delivery): boolean {
  return delivery.redelivered === true || (delivery.deliveryCount ?? 1) > 1
}

function toUnguarded(
  options: ResolvedOptions,
  { arrival, identified }: Sighted,
): Received['unguarded'] {
  if (identified.kind !== 'unguarded') return []
  return [{ arrival, member: eventWithoutKey(options, arrival.delivery, identified) }]
}

/** Without a key it is an event of its own each time. */
export function eventWithoutKey(
  { runtime }: ResolvedOptions,
  delivery: Delivery,
  { orderingKey: lane, payload }: Extract<Identified, { kind: 'unguarded' }>,
): InFlightEvent {
  const id = runtime.uuid() as EventId
  const event = { id, key: '' as EventKey, fingerprint: 0n as Fingerprint, delivery }
  return { event, payload, lane, suspect: false }
}

function toSettled(
  options: ResolvedOptions,
  { arrival, identified }: Sighted,
): Received['settled'] {
  if (identified.kind === 'skipped') {
    return [{ arrival, outcome: { kind: 'skipped' }, key: undefined }]
  }
  if (identified.kind !== 'retry') return []
  // Nothing is stored of it, so only the broker counts its attempts, and nothing ends them but the broker.
  const attempt = arrival.delivery.deliveryCount ?? 1
  const delayMs = retryDelayMs(options, attempt, identified.error)
  const outcome = { kind: 'failed', attempt, delayMs, error: identified.error } as const
  return [{ arrival, outcome, key: undefined }]
}

function isRefused({ identified }: Sighted): boolean {
  return identified.kind === 'refused'
}

/** The durable record first, then the settlement. */
async function refuse(
  { fault, session }: ReceiveContext,
  sighted: readonly Sighted[],
): Promise<Received['settled']> {
  const refused = sighted.flatMap(({ arrival, identified }) =>
    identified.kind === 'refused' ? [{ arrival, identified }] : [],
  )
  const refusals: Refusal[] = refused.map(({ arrival, identified }) => ({
    delivery: arrival.delivery,
    reason: identified.reason,
    error: identified.error,
    key: identified.key,
  }))
  let refs: readonly (DeadLetterRef | undefined)[]
  try {
    refs = (await session?.refuse(refusals)) ?? []
  } catch (error) {
    const outcome = fault(error)
    return refused.map(({ arrival, identified }) => ({ arrival, key: identified.key, outcome }))
  }
  return refused.map(({ arrival, identified }, index) => {
    const { reason, error, key } = identified
    return { arrival, key, outcome: { kind: 'dead', reason, attempt: 0, error, ref: refs[index] } }
  })
}
