import { andThen, type MaybeAsync } from '../concurrency/maybe-async.ts'
import { answerWithin, LATE } from '../concurrency/timeout.ts'
import { callUserFunction, type Found, unreadable } from '../identity/call-user-function.ts'
import { eventIdOf } from '../identity/event-id.ts'
import { fingerprintOf } from '../identity/fingerprint.ts'
import { inflated } from '../identity/inflate.ts'
import { validate } from '../identity/schema.ts'
import { type Decoded, decodeByUser, decodeJson, decodeJsonOrText } from '../messages/decode.ts'
import { missingKey, toEventKey } from '../messages/event-key.ts'
import { toMessageType, unknownType } from '../messages/message-type.ts'
import { OWN_READ, type OwnResolver, positionOf, withDecoded } from '../messages/resolvers.ts'
import type { EventKey, Fingerprint } from '../model/brands.ts'
import { copyDelivery, type DecodedDelivery, type Delivery, unreserved } from '../model/delivery.ts'
import {
  DeadlineExceededError,
  FatalError,
  InvalidPayloadError,
  MissingKeyError,
  RetryableError,
} from '../model/errors.ts'
import type { IdentifiedEvent } from '../model/inbox.ts'
import type { DeadLetterReason } from '../model/settlement.ts'
import type { ResolvedOptions } from '../options/resolved-options.ts'
import { OTHER_TYPE } from '../options/routes.ts'
import { WrongAnswerError } from '../options/wrong-answer.ts'
import { decodeItem, toItems } from './split.ts'

/** The result of step 1 for a delivery. */
export type Identified =
  | {
      readonly kind: 'identified'
      readonly event: IdentifiedEvent
      readonly payload: unknown
      readonly type?: string | undefined
      readonly orderingKey?: string | undefined
      /** Where the body holds an integer that JavaScript rounded. */
      readonly rounded?: string | undefined
    }
  /** With a type: `unknown` says so. */
  | { readonly kind: 'skipped'; readonly type?: string | undefined }
  /** The message holds several events: each of them is identified as a delivery of its own. */
  | { readonly kind: 'split'; readonly items: readonly Delivery[] }
  | {
      readonly kind: 'refused'
      readonly reason: Extract<
        DeadLetterReason,
        | 'invalid-payload'
        | 'missing-event-key'
        | 'unknown-type'
        | 'fatal'
        | 'no-verdict'
        | 'attempts-spent'
      >
      readonly error: unknown
      readonly key?: string | undefined
      readonly type?: string | undefined
      /** Reads of the message that failed. Undefined: the message was refused at once. */
      readonly attempt?: number | undefined
    }
  /**
   * The message cannot be read yet: a user's function threw, for example because a schema registry is down, or gave no
   * answer within the deadline. Not counted if the function gave an answer that no message can cause.
   */
  | { readonly kind: 'retry'; readonly error: unknown; readonly isCounted: boolean }
  /** The message has no key, and the user's policy is to run it without a guard. */
  | {
      readonly kind: 'unguarded'
      readonly payload: unknown
      readonly type?: string | undefined
      readonly orderingKey?: string | undefined
    }

/** A message that is being read. Each step adds what it found. */
interface Reading extends Found {
  readonly delivery: Delivery
  /** Those of the type of the message, once it is known. */
  options: ResolvedOptions
  type: string | undefined
  /** Without its content encoding. */
  body: Uint8Array
  decoded: Decoded
  payload: unknown
  /** Of the rule `body`, if there is a schema. */
  fingerprint: Fingerprint | undefined
  tenant: EventKey | undefined
  orderingKey: string | undefined
  /** As the user's resolvers see the message. Made for the first of them. */
  shown: DecodedDelivery<unknown> | undefined
}

/** Undefined: the next step follows. */
type Step = (reading: Reading) => MaybeAsync<Identified | undefined>

/** Step 1 of the guard, in order. A step of an option is left out where the option is not set. */
const STEPS: readonly {
  readonly option?: 'routes' | 'schema' | 'skip' | 'split' | 'tenant'
  readonly take: Step
}[] = [
  { take: inflate },
  { take: decode },
  { option: 'skip', take: skip },
  { option: 'split', take: split },
  { option: 'routes', take: findType },
  { option: 'schema', take: takeBodyFingerprint },
  { option: 'schema', take: applySchema },
  { take: findKey },
  { option: 'tenant', take: findTenant },
  { take: decideKeyless },
  { take: findOrderingKey },
  { take: takeFingerprint },
]

const NOTHING_DECODED: Decoded = { value: undefined, isExact: false }

/**
 * Step 1: decode → skip → type → schema → key → fingerprint. Never rejects, and ends within `deadlineMs`. If a user's function
 * throws, the message is read again later, unless the error says that it never can be: {@link InvalidPayloadError},
 * {@link FatalError} or a SyntaxError. docs/configuration.md has the rule of each function.
 *
 * @see design.md §2, §8
 */
export function identify(delivery: Delivery, options: ResolvedOptions): MaybeAsync<Identified> {
  // Without spreads, here and in what else is made for each event: V8 copies the second one property by property.
  const reading: Reading = {
    delivery,
    options,
    type: undefined,
    body: delivery.body,
    decoded: NOTHING_DECODED,
    payload: undefined,
    fingerprint: undefined,
    key: undefined,
    tenant: undefined,
    orderingKey: undefined,
    shown: undefined,
    calling: undefined,
  }
  try {
    const identified = takeSteps(reading, 0)
    if (!(identified instanceof Promise)) return identified
    const refused = identified.catch((thrown: unknown) => refusal(thrown, reading))
    return withinDeadline(options, refused, reading)
  } catch (thrown) {
    return refusal(thrown, reading)
  }
}

/** Most steps answer at once, so the steps that follow are not made for a promise each. */
function takeSteps(reading: Reading, first: number): MaybeAsync<Identified> {
  for (let at = first; at < STEPS.length; at++) {
    const { option, take } = STEPS[at] as (typeof STEPS)[number]
    if (option !== undefined && reading.options[option] === undefined) continue
    const end = take(reading)
    if (end instanceof Promise) return end.then((late) => late ?? takeSteps(reading, at + 1))
    if (end !== undefined) return end
  }
  throw new TypeError('The last step of onceward identified no event.')
}

/** A function that never answers must not hold up the other messages of the call, nor `close()`. */
async function withinDeadline(
  options: ResolvedOptions,
  identifying: Promise<Identified>,
  found: Found,
): Promise<Identified> {
  const { deadlineMs, runtime } = options
  const identified = await answerWithin(runtime, identifying, deadlineMs)
  if (identified !== LATE) return identified
  // No function of the user is running: the body is long, and reading it ends.
  if (found.calling === undefined) return withinDeadline(options, identifying, found)
  const message = `\`${found.calling}\` gave no answer within deadlineMs = ${deadlineMs} ms, so the message is read again later. Make it faster or raise \`deadlineMs\`.`
  return { kind: 'retry', error: new DeadlineExceededError(message), isCounted: true }
}

function refusal(thrown: unknown, { key, type }: Reading): Identified {
  if (thrown instanceof WrongAnswerError) return { kind: 'retry', error: thrown, isCounted: false }
  if (thrown instanceof RetryableError) return { kind: 'retry', error: thrown, isCounted: true }
  if (thrown instanceof FatalError)
    return { kind: 'refused', reason: 'fatal', error: thrown, key, type }
  if (thrown instanceof MissingKeyError) {
    return { kind: 'refused', reason: 'missing-event-key', error: thrown, key, type }
  }
  const error = thrown instanceof InvalidPayloadError ? thrown : unreadable('an option', thrown)
  return { kind: 'refused', reason: 'invalid-payload', error, key, type }
}

function inflate(reading: Reading): MaybeAsync<undefined> {
  const { delivery, options } = reading
  // The item of a message is stored as it is read.
  if (isItemOf(reading)) return undefined
  return inflated(delivery, options.maxInflatedBytes)?.then((body) => {
    reading.body = body
    return undefined
  })
}

function decode(reading: Reading): MaybeAsync<undefined> {
  const { body, options } = reading
  const { decode: decodes, fingerprint } = options
  if (isItemOf(reading)) return keepDecoded(reading, decodeItem(reading.delivery, decodeJson))
  const { contentType = reading.delivery.headers['content-type'] } = reading.delivery
  const saysText = contentType?.startsWith('text/plain') === true
  const decoding =
    decodes === undefined
      ? (saysText ? decodeJsonOrText : decodeJson)(body)
      : callUserFunction(reading, 'decode', () => {
          const delivery = unreserved(reading.delivery)
          return decodeByUser({ body, delivery }, decodes, fingerprint)
        })
  return decoding instanceof Promise
    ? decoding.then((decoded) => keepDecoded(reading, decoded))
    : keepDecoded(reading, decoding)
}

function keepDecoded(reading: Reading, decoded: Decoded): undefined {
  reading.decoded = decoded
  reading.payload = decoded.value
  if (decoded.rounded !== undefined) warnOfRounding(reading, decoded.rounded)
}

/** Once for each consumer and path: two ids of 64 bits may be one key, and the handler gets a wrong number. */
function warnOfRounding({ options }: Reading, path: string): void {
  const message =
    'the body holds an integer that JavaScript rounds: set `decode: losslessJson()`, which makes it a bigint'
  options.reportOnce('warn', { consumer: options.consumer, path }, message, path)
}

function keepKey(reading: Reading, value: unknown): void {
  reading.key = toEventKey(value)
  const isQuoted = typeof value === 'string' && value.length > 1 && /^".*"$/s.test(value)
  if (!isQuoted) return
  const { consumer, reportOnce } = reading.options
  reportOnce(
    'warn',
    { consumer, option: 'eventKey' },
    'an event key begins and ends with a quote, so it differs from the same key without them: let the resolver remove the quotes that a JSON converter of headers adds',
  )
}

/** A skipped message is gone for good, so only `true` skips it. */
function skip(reading: Reading): MaybeAsync<Identified | undefined> {
  const { delivery, options, payload } = reading
  const { skip: isSkipped } = options
  if (isSkipped === undefined || isItemOf(reading)) return undefined
  const asked = callUserFunction(reading, 'skip', () =>
    isSkipped(copyDelivery(unreserved(delivery), { payload })),
  )
  return andThen<unknown, Identified | undefined>(asked, (answer) => {
    if (answer === true) return { kind: 'skipped' }
    if (answer === false || answer === undefined || answer === null) return undefined
    throw new WrongAnswerError('skip', answer)
  })
}

/** An item is not split again, also if it was replayed, or put back on its queue. */
const isItemOf = ({ delivery, options }: Reading): boolean =>
  options.split !== undefined && delivery.item !== undefined

function split(reading: Reading): MaybeAsync<Identified | undefined> {
  const { delivery, options, payload } = reading
  const { split: itemsOf } = options
  if (itemsOf === undefined || delivery.item !== undefined) return undefined
  const asked = callUserFunction<unknown>(reading, 'split', () =>
    itemsOf(copyDelivery(unreserved(delivery), { payload })),
  )
  return andThen<unknown, Identified>(asked, (answer) => {
    const items = toItems(delivery, answer)
    return items.length === 0 ? { kind: 'skipped' } : { kind: 'split', items }
  })
}

/** The type chooses the options of the steps that follow. */
function findType(reading: Reading, first = 0): MaybeAsync<Identified | undefined> {
  const { decoded, options } = reading
  const resolvers = options.routes?.type ?? []
  for (let at = first; at < resolvers.length; at++) {
    const resolver = resolvers[at] as OwnResolver
    const value =
      resolver[OWN_READ] === undefined
        ? callUserFunction<unknown>(reading, 'type', () => resolver(shownTo(reading)))
        : resolver[OWN_READ](inflatedOf(reading), decoded.value, options.decode === undefined)
    if (value instanceof Promise) {
      return value.then((late) => {
        const type = toMessageType(late)
        return type === undefined ? findType(reading, at + 1) : ofType(reading, type)
      })
    }
    const type = toMessageType(value)
    if (type !== undefined) return ofType(reading, type)
  }
  return ofType(reading, undefined)
}

function ofType(reading: Reading, type: string | undefined): Identified | undefined {
  const { options } = reading
  const own = type === undefined ? undefined : options.routes?.byType.get(type)
  if (own === undefined) {
    const error = unknownType(options, type)
    if (error === undefined) return { kind: 'skipped', type: OTHER_TYPE }
    const key = ownKeyOf(reading)
    return { kind: 'refused', reason: 'unknown-type', error, key, type: OTHER_TYPE }
  }
  reading.type = type
  reading.options = own
  // The schema makes another payload for the resolvers that follow.
  reading.shown = undefined
  return undefined
}

/** The key of a message that no handler is for, so that operators find it. A resolver of the user may expect another payload. */
function ownKeyOf(reading: Reading): EventKey | undefined {
  const { decoded, delivery, options } = reading
  if (delivery.place !== undefined) return undefined
  try {
    for (const resolver of options.eventKey as readonly OwnResolver[]) {
      const key = toEventKey(resolver[OWN_READ]?.(inflatedOf(reading), decoded.value, false))
      if (key !== undefined) return key
    }
  } catch {
    // It is refused for its type.
  }
  return undefined
}

/** Before the schema runs, because validators such as Ajv may fill in defaults in the value that they were given. */
function takeBodyFingerprint(reading: Reading): MaybeAsync<undefined> {
  const { body, decoded, delivery, options, payload } = reading
  if (options.fingerprint !== 'body' || delivery.place !== undefined) return undefined
  const content = { body, decoded, payload, version: options.fingerprintRule }
  return andThen(fingerprintOf('body', content), (fingerprint) => {
    reading.fingerprint = fingerprint
    return undefined
  })
}

function applySchema(reading: Reading): MaybeAsync<undefined> {
  const { schema } = reading.options
  if (schema === undefined) return undefined
  const { value } = reading.decoded
  const validating = callUserFunction(reading, 'schema', () => validate(schema, value))
  return andThen(validating, (payload) => {
    reading.payload = payload
    return undefined
  })
}

/** The first resolver that finds a key decides. */
function findKey(reading: Reading, first = 0): MaybeAsync<undefined> {
  const { decoded, delivery, options } = reading
  const { place } = delivery
  if (place !== undefined) {
    reading.key = place.fence.keyOf(place.offset)
    return undefined
  }
  const { eventKey } = options
  for (let at = first; at < eventKey.length; at++) {
    const resolver = eventKey[at] as OwnResolver
    const read = resolver[OWN_READ]
    const value =
      read === undefined
        ? callUserFunction<unknown>(reading, 'eventKey', () => resolver(shownTo(reading)))
        : read(inflatedOf(reading), decoded.value, options.decode === undefined)
    if (value === undefined) continue
    if (value instanceof Promise) {
      return value.then((late) => {
        keepKey(reading, late)
        return reading.key === undefined ? findKey(reading, at + 1) : undefined
      })
    }
    keepKey(reading, value)
    if (reading.key !== undefined) return undefined
  }
  return undefined
}

function findTenant(reading: Reading): MaybeAsync<undefined> {
  const { tenant: resolver } = reading.options
  if (resolver === undefined) return undefined
  const asked = callUserFunction<unknown>(reading, 'tenant', () => resolver(shownTo(reading)))
  return andThen(asked, (value) => {
    reading.tenant = toEventKey(value, 'tenant')
    return undefined
  })
}

/** Applies the policy for a message whose key or tenant is missing. */
function decideKeyless(reading: Reading): undefined {
  const { delivery, key, options, tenant } = reading
  const { onMissingKey } = options
  const isTenantMissing = options.tenant !== undefined && tenant === undefined
  if (key !== undefined && !isTenantMissing) return undefined
  if (onMissingKey === 'unguarded') {
    reading.key = undefined
    return undefined
  }
  const isPosition = onMissingKey === 'position'
  const place = isPosition ? toEventKey(positionOf(delivery)) : undefined
  if (place === undefined) {
    throw missingKey({
      ...{ isTenantMissing, isPositionMissing: isPosition, payload: reading.payload },
      isChosen: isTenantMissing || options.eventKeyChosen,
    })
  }
  reading.key = place
  return undefined
}

function findOrderingKey(reading: Reading): MaybeAsync<undefined> {
  const { delivery, options } = reading
  if (!options.orderingKeyChosen) {
    if (delivery.orderingKey !== undefined) {
      reading.orderingKey = toOrderingKey(delivery.orderingKey)
    }
    return undefined
  }
  const value = callUserFunction<unknown>(reading, 'orderingKey', () =>
    options.orderingKey(shownTo(reading)),
  )
  return andThen(value, (found) => {
    reading.orderingKey = toOrderingKey(found)
    return undefined
  })
}

function takeFingerprint(reading: Reading): MaybeAsync<Identified> {
  const { body, decoded, fingerprint, key, options, orderingKey, payload } = reading
  if (key === undefined) return { kind: 'unguarded', payload, type: reading.type, orderingKey }
  if (fingerprint !== undefined) return toIdentified(reading, key, fingerprint)
  // One place has one record.
  const rule = reading.delivery.place === undefined ? options.fingerprint : 'none'
  const content = { body, decoded, payload, version: options.fingerprintRule }
  const taking =
    typeof rule === 'function'
      ? callUserFunction(reading, 'fingerprint', () => fingerprintOf(rule, content))
      : fingerprintOf(rule, content)
  return taking instanceof Promise
    ? taking.then((fingerprint) => toIdentified(reading, key, fingerprint))
    : toIdentified(reading, key, taking)
}

function toIdentified(reading: Reading, key: EventKey, fingerprint: Fingerprint): Identified {
  const { delivery, options, orderingKey, payload, tenant, type } = reading
  const id = eventIdOf(options.consumer, tenant, key)
  // As one literal: an object that gets a field later is another kind of object for V8.
  const maxAttempts = type === undefined ? undefined : options.retry.attempts
  const event: IdentifiedEvent = { id, key, tenant, fingerprint, delivery, maxAttempts }
  const { rounded } = reading.decoded
  return { kind: 'identified', event, payload, type, orderingKey, rounded }
}

/** Resolvers of onceward read what the producer wrote. Those of the user see the body as it came, as the handler does. */
const inflatedOf = ({ body, delivery }: Reading): Delivery =>
  body === delivery.body ? delivery : copyDelivery(delivery, { body })

/** All resolvers of the user see the same copy. */
function shownTo(reading: Reading): DecodedDelivery<unknown> {
  const { decoded, delivery, payload } = reading
  if (reading.shown === undefined) {
    const copy = copyDelivery(unreserved(delivery), { payload })
    reading.shown = payload === decoded.value ? copy : withDecoded(copy, decoded.value)
  }
  return reading.shown
}

function toOrderingKey(value: unknown): string | undefined {
  if (value === undefined || value === null || value === '') return undefined
  if (['string', 'number', 'bigint'].includes(typeof value)) return String(value)
  throw new InvalidPayloadError(`\`orderingKey\` returned a value of type ${typeof value}.`)
}
