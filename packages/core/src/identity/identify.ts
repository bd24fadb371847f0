import { andThen, isPromise, type MaybeAsync } from '../concurrency/maybe-async.ts'
import { answerWithin, LATE } from '../concurrency/timeout.ts'
import type { EventKey, Fingerprint } from '../model/brands.ts'
import { copyDelivery, type DecodedDelivery, type Delivery } from '../model/delivery.ts'
import {
  DeadlineExceededError,
  InvalidPayloadError,
  MissingKeyError,
  toReadableError,
} from '../model/errors.ts'
import type { IdentifiedEvent } from '../model/inbox.ts'
import type { ResolvedOptions } from '../options/resolved-options.ts'
import { WrongAnswerError } from '../options/user-functions.ts'
import { callUserFunction, type Found, isRetryable, threw } from './call-user-function.ts'
import { type Decoded, decodeDelivery } from './decode.ts'
import { eventIdOf } from './event-id.ts'
import { toEventKey } from './event-key.ts'
import { fingerprintOf } from './fingerprint.ts'
import { position, withDecoded } from './resolvers.ts'
import { validate } from './schema.ts'

/** The result of step 1 for a delivery. */
export type Identified =
  | {
      readonly kind: 'identified'
      readonly event: IdentifiedEvent
      readonly payload: unknown
      readonly orderingKey?: string | undefined
    }
  | { readonly kind: 'skipped' }
  | {
      readonly kind: 'refused'
      readonly reason: 'invalid-payload' | 'missing-event-key' | 'no-verdict'
      readonly error: InvalidPayloadError | MissingKeyError
      readonly key?: string | undefined
    }
  /**
   * A user's function threw a {@link RetryableError}, for example because a schema registry is down; or it gave no
   * answer within the deadline, or an answer that no message can cause.
   */
  | { readonly kind: 'retry'; readonly error: unknown }
  /** The message has no key, and the user's policy is to run it without a guard. */
  | {
      readonly kind: 'unguarded'
      readonly payload: unknown
      readonly orderingKey?: string | undefined
    }

/**
 * Step 1: decode → skip → schema → key → fingerprint. Never rejects, and ends within `deadlineMs`. If a user's function
 * throws, the message is refused, because the function would throw at each redelivery too. A {@link RetryableError} is
 * retried instead. `USER_FUNCTIONS` has the rule of each function.
 *
 * @see design.md §2, §8
 */
export function identify(delivery: Delivery, options: ResolvedOptions): MaybeAsync<Identified> {
  const found: Found = {}
  const refuse = (thrown: unknown): Identified => refusal(thrown, found.key)
  try {
    const identified = identifyOrThrow(delivery, options, found)
    return isPromise(identified)
      ? withinDeadline(options, identified.catch(refuse), found)
      : identified
  } catch (thrown) {
    return refuse(thrown)
  }
}

/** A function that never answers must not hold up the other messages of the call, nor `close()`. */
async function withinDeadline(
  { deadlineMs, runtime }: ResolvedOptions,
  identifying: Promise<Identified>,
  found: Found,
): Promise<Identified> {
  const identified = await answerWithin(runtime, identifying, deadlineMs)
  if (identified !== LATE) return identified
  // Nothing of the user's is running: the body is long, and reading it ends.
  if (found.calling === undefined) return identifying
  const message = `\`${found.calling}\` gave no answer within deadlineMs = ${deadlineMs} ms, so the message is retried later. Make it faster or raise \`deadlineMs\`.`
  return { kind: 'retry', error: new DeadlineExceededError(message) }
}

function refusal(raw: unknown, key: EventKey | undefined): Identified {
  const thrown = toReadableError(raw)
  if (isRetryable(thrown)) return { kind: 'retry', error: thrown }
  if (thrown instanceof MissingKeyError) {
    return { kind: 'refused', reason: 'missing-event-key', error: thrown, key }
  }
  const error = thrown instanceof InvalidPayloadError ? thrown : threw('an option', thrown)
  return { kind: 'refused', reason: 'invalid-payload', error, key }
}

function identifyOrThrow(
  delivery: Delivery,
  options: ResolvedOptions,
  found: Found,
): MaybeAsync<Identified> {
  const decoding =
    options.decode === undefined
      ? decodeDelivery(delivery, options)
      : callUserFunction(found, 'decode', () => decodeDelivery(delivery, options))
  return isPromise(decoding)
    ? decoding.then((decoded) => identifyDecoded({ delivery, decoded }, options, found))
    : identifyDecoded({ delivery, decoded: decoding }, options, found)
}

function identifyDecoded(
  seen: Omit<Seen, 'payload'>,
  options: ResolvedOptions,
  found: Found,
): MaybeAsync<Identified> {
  if (options.skip === undefined) return identifyKept(seen, options, found)
  return andThen(isSkipped(seen, options.skip, found), (skipped) =>
    skipped ? { kind: 'skipped' } : identifyKept(seen, options, found),
  )
}

function identifyKept(
  { delivery, decoded }: Omit<Seen, 'payload'>,
  options: ResolvedOptions,
  found: Found,
): MaybeAsync<Identified> {
  const { schema } = options
  if (schema === undefined) {
    return identifySeen({ delivery, decoded, payload: decoded.value }, options, found)
  }
  const validating = callUserFunction(found, 'schema', () => validate(schema, decoded.value))
  return andThen(validating, (payload) =>
    identifySeen({ delivery, decoded, payload }, options, found),
  )
}

/** A skipped message is gone for good, so only `true` skips it. */
function isSkipped(
  { delivery, decoded: { value: payload } }: Omit<Seen, 'payload'>,
  skip: NonNullable<ResolvedOptions['skip']>,
  found: Found,
): MaybeAsync<boolean> {
  const asked = callUserFunction(found, 'skip', () => skip(copyDelivery(delivery, { payload })))
  return andThen<unknown, boolean>(asked, (answer) => {
    if (typeof answer === 'boolean') return answer
    if (answer === undefined || answer === null) return false
    throw new WrongAnswerError('skip', answer)
  })
}

interface Seen {
  readonly delivery: Delivery
  readonly decoded: Decoded
  readonly payload: unknown
}

function identifySeen(seen: Seen, options: ResolvedOptions, found: Found): MaybeAsync<Identified> {
  const { delivery, decoded, payload } = seen
  const copy = copyDelivery(delivery, { payload })
  const shown = payload === decoded.value ? copy : withDecoded(copy, decoded.value)
  const finding = findIdentity(shown, options, found)
  return isPromise(finding)
    ? finding.then((identity) => identifyFound({ ...seen, shown, identity }, options, found))
    : identifyFound({ delivery, decoded, payload, shown, identity: finding }, options, found)
}

interface FoundIdentity extends Seen {
  /** As resolvers see the message. */
  readonly shown: DecodedDelivery<unknown>
  readonly identity: Identity | undefined
}

function identifyFound(
  seen: FoundIdentity,
  options: ResolvedOptions,
  found: Found,
): MaybeAsync<Identified> {
  const ordering = findOrderingKey(seen.shown, options, found)
  return isPromise(ordering)
    ? ordering.then((orderingKey) => identifyOrdered({ ...seen, orderingKey }, options, found))
    : identifyOrdered({ ...seen, orderingKey: ordering }, options, found)
}

function identifyOrdered(
  seen: FoundIdentity & { readonly orderingKey: string | undefined },
  options: ResolvedOptions,
  found: Found,
): MaybeAsync<Identified> {
  const { delivery, decoded, identity, orderingKey, payload } = seen
  if (identity === undefined) return { kind: 'unguarded', payload, orderingKey }
  const { key, tenant } = identity
  const content = { body: delivery.body, decoded, payload }
  const rule = options.fingerprint
  const taking =
    typeof rule === 'function'
      ? callUserFunction(found, 'fingerprint', () => fingerprintOf(rule, content))
      : fingerprintOf(rule, content)
  const toIdentified = (fingerprint: Fingerprint): Identified => {
    const id = eventIdOf(options.consumer, tenant, key)
    const event: IdentifiedEvent = { id, key, tenant, fingerprint, delivery }
    return { kind: 'identified', event, payload, orderingKey }
  }
  return isPromise(taking) ? taking.then(toIdentified) : toIdentified(taking)
}

interface Identity {
  readonly key: EventKey
  readonly tenant?: string | undefined
}

/** @returns undefined for a missing key under the policy `unguarded`. */
function findIdentity(
  seen: DecodedDelivery<unknown>,
  options: ResolvedOptions,
  found: Found,
): MaybeAsync<Identity | undefined> {
  const finding = findKey(seen, { resolvers: options.eventKey, at: 0 }, found)
  return isPromise(finding)
    ? finding.then((key) => findTenancy(seen, { options, key }, found))
    : findTenancy(seen, { options, key: finding }, found)
}

function findTenancy(
  seen: DecodedDelivery<unknown>,
  { options, key }: { readonly options: ResolvedOptions; readonly key: EventKey | undefined },
  found: Found,
): MaybeAsync<Identity | undefined> {
  found.key = key
  const { tenant: resolver } = options
  if (resolver === undefined) return toIdentity(seen, options, { key, tenant: undefined })
  return andThen(
    callUserFunction(found, 'tenant', () => resolver(seen)),
    (value) => toIdentity(seen, options, { key, tenant: toEventKey(value, 'tenant') }),
  )
}

function toIdentity(
  seen: DecodedDelivery<unknown>,
  options: ResolvedOptions,
  { key, tenant }: { readonly key: EventKey | undefined; readonly tenant: EventKey | undefined },
): Identity | undefined {
  const { onMissingKey } = options
  const isTenantMissing = options.tenant !== undefined && tenant === undefined
  if (key !== undefined && !isTenantMissing) return { key, tenant }
  if (onMissingKey === 'unguarded') return undefined
  const place = onMissingKey === 'position' ? toEventKey(position()(seen)) : undefined
  if (place !== undefined) return { key: place, tenant }
  throw missing({ isTenantMissing, isPositionMissing: onMissingKey === 'position' })
}

interface Resolvers {
  readonly resolvers: ResolvedOptions['eventKey']
  /** The first one to ask. */
  readonly at: number
}

/** Returns the key of the first resolver that finds one. */
function findKey(
  seen: DecodedDelivery<unknown>,
  { resolvers, at }: Resolvers,
  found: Found,
): MaybeAsync<EventKey | undefined> {
  for (let next = at; next < resolvers.length; next += 1) {
    const value = callUserFunction(found, 'eventKey', () => resolvers[next]?.(seen))
    if (isPromise(value)) {
      return value.then(
        (late) => toEventKey(late) ?? findKey(seen, { resolvers, at: next + 1 }, found),
      )
    }
    const key = toEventKey(value)
    if (key !== undefined) return key
  }
  return undefined
}

function findOrderingKey(
  seen: DecodedDelivery<unknown>,
  { orderingKey }: ResolvedOptions,
  found: Found,
): MaybeAsync<string | undefined> {
  const value = callUserFunction<unknown>(found, 'orderingKey', () => orderingKey(seen))
  return isPromise(value) ? value.then(toOrderingKey) : toOrderingKey(value)
}

function toOrderingKey(value: unknown): string | undefined {
  if (value === undefined || value === null || value === '') return undefined
  if (typeof value === 'string' || typeof value === 'number') return String(value)
  throw new InvalidPayloadError(`\`orderingKey\` returned a value of type ${typeof value}.`)
}

function missing(what: {
  readonly isTenantMissing: boolean
  readonly isPositionMissing: boolean
}): MissingKeyError {
  const problem = what.isTenantMissing
    ? 'The resolver of `tenant` found none.'
    : 'No resolver of `eventKey` found a key.'
  const remedy = what.isPositionMissing
    ? 'The message has no position in its broker that could be used instead.'
    : 'Let the producer set it (CloudEvents source and id, or an idempotency-key header), or set the option to a resolver that finds it.'
  return new MissingKeyError(`${problem} ${remedy}`)
}
