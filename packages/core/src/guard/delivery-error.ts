import { types } from 'node:util'
import type { Delivery } from '../model/delivery.ts'
import { ConfigurationError } from '../model/errors.ts'
import { hasMethod } from '../support/wrong-arguments.ts'

const MADE_BY =
  'Make it of the message of the client with `fromKafkaMessage`, `fromSqsMessage` or `fromAmqpMessage`, or write the fields of `Delivery`.'

/**
 * The error of a call whose argument is not a delivery; undefined if it is one. A message of a client in its place would
 * be refused as a bad payload, message by message, and be dead-lettered.
 */
export function deliveryError(
  name: string,
  value: Partial<Delivery> | null | undefined,
): ConfigurationError | undefined {
  const { body, headers, source } = value ?? {}
  // A Map or `Headers` has no names of its own, so no resolver would find a key in it.
  const isNamed = typeof headers === 'object' && headers !== null && !(Symbol.iterator in headers)
  const isRead = types.isUint8Array(body) && isNamed
  if (isRead && typeof source?.broker === 'string' && typeof source.queue === 'string') {
    const { contentType, envelope, messageId, orderingKey, producedAt } = value ?? {}
    const isBare = contentType === undefined && messageId === undefined && orderingKey === undefined
    if (isBare && envelope === undefined && producedAt === undefined) return undefined
    return optionalError(name, { contentType, envelope, messageId, orderingKey, producedAt })
  }
  const what = textOf(value)
  const fields = `\`body\` is ${textOf(body)}, \`headers\` ${textOf(headers)} and \`source\` ${textOf(source)}`
  const found = what === 'object' ? fields : `it is ${what}`
  return new ConfigurationError(
    `${name} is not a delivery: ${found}. A delivery has a \`body\` (Uint8Array), \`headers\` (object of names and values) and a \`source\` with \`broker\` and \`queue\`. ${MADE_BY}`,
  )
}

/** Optional fields are stored with a dead letter. One that cannot be stored would keep its event from ever ending. */
function optionalError(
  name: string,
  { envelope, producedAt, ...texts }: Partial<Record<keyof Delivery, unknown>>,
): ConfigurationError | undefined {
  const unusable = (field: string, value: unknown, wanted: string, help: string) =>
    new ConfigurationError(
      `${name} is not usable: expected ${wanted} or undefined, but \`${field}\` is ${textOf(value)}. ${help}`,
    )
  // Without `instanceof`: the Date of a test runner may be another one.
  if (producedAt !== undefined && !hasMethod(producedAt, 'getTime')) {
    return unusable('producedAt', producedAt, 'a Date', 'Write `new Date(milliseconds)`.')
  }
  if (envelope !== undefined && !types.isUint8Array(envelope)) {
    return unusable('envelope', envelope, 'bytes', MADE_BY)
  }
  for (const field in texts) {
    const value = texts[field as keyof typeof texts]
    if (value !== undefined && typeof value !== 'string') {
      return unusable(field, value, 'a string', 'Write `String(…)`.')
    }
  }
  return undefined
}

/** The error of a call whose argument is not a list of deliveries. */
export function deliveriesError(all: unknown): ConfigurationError | undefined {
  if (!Array.isArray(all)) {
    return new ConfigurationError(
      `The argument of \`processBatch\` is ${textOf(all)}, and not an array of deliveries. For one delivery there is \`process\`.`,
    )
  }
  for (let index = 0; index < all.length; index++) {
    const error = deliveryError(`Delivery ${index} of \`processBatch\``, all[index])
    if (error !== undefined) return error
  }
  return undefined
}

/** Says what a value is, and never what is in it: it may be a payload. */
function textOf(value: unknown): string {
  if (value === null) return 'null'
  if (types.isUint8Array(value)) return 'bytes'
  if (Array.isArray(value)) return 'an array'
  return typeof value === 'object' && Symbol.iterator in value ? 'an iterable' : typeof value
}
