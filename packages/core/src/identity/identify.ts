import { andThen, isPromise, isThenable, type MaybeAsync } from '../concurrency/maybe-async.ts'
import { answerWithin, LATE } from '../concurrency/timeout.ts'
import type { EventKey, Fingerprint } from '../model/brands.ts'
import { copyDelivery, type DecodedDelivery, type Delivery } from '../model/delivery.ts'
import {
  DeadlineExceededError,
  describeError,
  InvalidPayloadError,
  MissingKeyError,
  OncewardError,
  toReadableError,
} from '../model/errors.ts'
import type { IdentifiedEvent } from '../model/inbox.ts'
import type { ResolvedOptions } from '../options/resolved-options.ts'
import { WrongAnswerError } from '../options/user-functions.ts'
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

/** What is known about a message whose identification ends early. */
interface Found {
  key?: EventKey | undefined
  /** The user's function that is running. */
  calling?: string | undefined
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
  const { schema } = options
  const decoding =
    options.decode === undefined
      ? decodeDelivery(delivery, undefined)
      : callUserFunction(found, 'decode', () => decodeDelivery(delivery, options.decode))
  return andThen(decoding, (decoded) =>
    andThen(isSkipped({ delivery, decoded }, options, found), (skipped) => {
      if (skipped) return { kind: 'skipped' }
      const payload =
        schema === undefined
          ? decoded.value
          : callUserFunction(found, 'schema', () => validate(schema, decoded.value))
      return andThen(payload, (payload) =>
        identifySeen({ delivery, decoded, payload }, options, found),
      )
    }),
  )
}

/** A skipped message is gone for good, so only `true` skips it. */
function isSkipped(
  { delivery, decoded: { value: payload } }: Omit<Seen, 'payload'>,
  { skip }: ResolvedOptions,
  found: Found,
): MaybeAsync<boolean> {
  if (skip === undefined) return false
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

function identifySeen(
  { delivery, decoded, payload }: Seen,
  options: ResolvedOptions,
  found: Found,
): MaybeAsync<Identified> {
  const seen = withDecoded(copyDelivery(delivery, { payload }), decoded.value)
  return andThen(findIdentity(seen, options, found), (identity) =>
    andThen(findOrderingKey(seen, options, found), (orderingKey): MaybeAsync<Identified> => {
      if (identity === undefined) return { kind: 'unguarded', payload, orderingKey }
      const { key, tenant } = identity
      const content = { body: delivery.body, decoded, payload }
      const take = (): MaybeAsync<Fingerprint> => fingerprintOf(options.fingerprint, content)
      const isUsers = typeof options.fingerprint === 'function'
      const taking = isUsers ? callUserFunction(found, 'fingerprint', take) : take()
      return andThen(taking, (fingerprint) => {
        const id = eventIdOf(options.consumer, tenant, key)
        const event: IdentifiedEvent = { id, key, tenant, fingerprint, delivery }
        return { kind: 'identified', event, payload, orderingKey }
      })
    }),
  )
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
  const { eventKey, onMissingKey } = options
  return andThen(findKey(seen, eventKey, found), (key) => {
    found.key = key
    return andThen(findTenant(seen, options, found), (tenant) => {
      const isTenantMissing = options.tenant !== undefined && tenant === undefined
      if (key !== undefined && !isTenantMissing) return { key, tenant }
      if (onMissingKey === 'unguarded') return undefined
      const place = onMissingKey === 'position' ? toEventKey(position()(seen)) : undefined
      if (place !== undefined) return { key: place, tenant }
      throw missing({ isTenantMissing, isPositionMissing: onMissingKey === 'position' })
    })
  })
}

/** Returns the key of the first resolver that finds one. */
function findKey(
  seen: DecodedDelivery<unknown>,
  [resolver, ...others]: ResolvedOptions['eventKey'],
  found: Found,
): MaybeAsync<EventKey | undefined> {
  if (resolver === undefined) return undefined
  const value = callUserFunction(found, 'eventKey', () => resolver(seen))
  return andThen(value, (value) => toEventKey(value) ?? findKey(seen, others, found))
}

function findTenant(
  seen: DecodedDelivery<unknown>,
  { tenant: resolver }: ResolvedOptions,
  found: Found,
): MaybeAsync<EventKey | undefined> {
  if (resolver === undefined) return undefined
  return andThen(
    callUserFunction(found, 'tenant', () => resolver(seen)),
    (value) => toEventKey(value, 'tenant'),
  )
}

function findOrderingKey(
  seen: DecodedDelivery<unknown>,
  { orderingKey }: ResolvedOptions,
  found: Found,
): MaybeAsync<string | undefined> {
  return andThen<unknown, string | undefined>(
    callUserFunction(found, 'orderingKey', () => orderingKey(seen)),
    (value) => {
      if (value === undefined || value === null || value === '') return undefined
      if (typeof value === 'string' || typeof value === 'number') return String(value)
      throw new InvalidPayloadError(`\`orderingKey\` returned a value of type ${typeof value}.`)
    },
  )
}

/**
 * Calls a user's function, and names the function if it throws. Awaits its result even where the type allows no promise:
 * a promise taken for a value would skip every message, or make all payloads equal.
 */
function callUserFunction<Value>(
  found: Found,
  name: string,
  call: () => Value,
): MaybeAsync<Awaited<Value>> {
  found.calling = name
  try {
    const value = call()
    if (isThenable(value)) return settled(found, name, value)
    found.calling = undefined
    return value as Awaited<Value>
  } catch (thrown) {
    throw blamed(name, thrown)
  }
}

async function settled<Value>(found: Found, name: string, value: Value): Promise<Awaited<Value>> {
  try {
    const settledValue = await value
    found.calling = undefined
    return settledValue
  } catch (thrown) {
    throw blamed(name, thrown)
  }
}

function blamed(name: string, raw: unknown): unknown {
  const thrown = toReadableError(raw)
  if (thrown instanceof InvalidPayloadError || thrown instanceof MissingKeyError) return thrown
  return isRetryable(thrown) ? thrown : threw(`\`${name}\``, thrown)
}

function isRetryable(thrown: unknown): boolean {
  if (thrown instanceof WrongAnswerError) return true
  return OncewardError.is(thrown) && thrown.code === 'ONCEWARD_RETRYABLE'
}

function threw(name: string, thrown: unknown): InvalidPayloadError {
  const { name: type, message } = describeError(thrown)
  const what = thrown instanceof Error ? `${type}: ${message}` : typeof thrown
  return new InvalidPayloadError(`${name} threw ${what}`, { cause: thrown })
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
