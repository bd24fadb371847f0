import type { Delivery } from '../model/delivery.ts'
import { ConfigurationError } from '../model/errors.ts'

const MADE_BY =
  'Make it of the message of the client with `fromKafkaMessage`, `fromSqsMessage` or `fromAmqpMessage`, or write the fields of `Delivery`.'

/**
 * The error of a call whose argument is not a delivery; undefined if it is one. A message of a client in its place would
 * be refused as a bad payload, message by message, and land in the dead letters.
 */
export function deliveryError(
  name: string,
  value: Partial<Delivery> | null | undefined,
): ConfigurationError | undefined {
  const { body, headers, source } = value ?? {}
  const isRead = body instanceof Uint8Array && typeof headers === 'object' && headers !== null
  if (isRead && typeof source?.broker === 'string' && typeof source.queue === 'string') {
    return undefined
  }
  const what = textOf(value)
  const fields = `\`body\` is ${textOf(body)}, \`headers\` ${textOf(headers)} and \`source\` ${textOf(source)}`
  const found = what === 'object' ? fields : `it is ${what}`
  return new ConfigurationError(
    `${name} is not a delivery: ${found}. A delivery has a \`body\` (Uint8Array), \`headers\` (object) and a \`source\` with \`broker\` and \`queue\`. ${MADE_BY}`,
  )
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
  if (value instanceof Uint8Array) return 'bytes'
  return Array.isArray(value) ? 'an array' : typeof value
}
