import { InvalidPayloadError } from '../model/errors.ts'
import { fromJsonText } from '../support/json-text.ts'
import { decodeText } from './decode.ts'
import { named } from './envelope-traits.ts'

/**
 * For the option `decode`: JSON whose integers beyond 2^53 are `bigint`. `JSON.parse` rounds them, so that two ids of 64
 * bits may become one. Smaller integers and decimals stay numbers. A bigint can be an event key, a tenant and an ordering
 * key as it is, and be in a result.
 *
 * @returns a decoder; an empty body is null.
 * @throws {@link InvalidPayloadError} in the guard, for a body that is not JSON in UTF-8.
 *
 * @example
 * ```ts
 * import { createGuard, losslessJson } from '@onceward/core'
 * import { memoryInbox } from '@onceward/core/memory'
 *
 * const billing = createGuard(
 *   {
 *     consumer: 'billing',
 *     inbox: memoryInbox(),
 *     decode: losslessJson(),
 *     eventKey: ({ payload }) => String(Object(payload).orderId),
 *   },
 *   async () => {},
 * )
 * ```
 */
export function losslessJson(): (body: Uint8Array) => unknown {
  return named('losslessJson', undefined, (body: Uint8Array) =>
    body.byteLength === 0 ? null : decodeText(body, parse),
  )
}

function parse(text: string): unknown {
  try {
    return fromJsonText(text)
  } catch (cause) {
    if (cause instanceof RangeError) throw new InvalidPayloadError('The body nests too deep.')
    throw cause
  }
}
