import type { Delivery } from '../model/delivery.ts'
import { InvalidPayloadError } from '../model/errors.ts'
import { brotliDecompress, gunzip, inflate, inflateRaw, promisify } from '../node.ts'

type Inflate = (bytes: Uint8Array, options: { readonly maxOutputLength: number }) => Promise<Buffer>

const gzip: Inflate = promisify(gunzip)
/** The name means zlib (RFC 9110), and many senders leave its header out. */
const DEFLATE: readonly Inflate[] = [promisify(inflate), promisify(inflateRaw)]

/** By the names of RFC 9110. Other codings, as `identity` or the `utf-8` of AMQP publishers, leave the body as it is. */
const CODINGS: Readonly<Partial<Record<string, readonly Inflate[]>>> = {
  gzip: [gzip],
  'x-gzip': [gzip],
  deflate: DEFLATE,
  br: [promisify(brotliDecompress)],
}

/**
 * The body without its content encoding, or undefined if it has none that is known. Codings are removed in the order
 * opposite to that in which they were applied.
 *
 * @param most - Most bytes of the result, and of each step to it.
 * @throws {@link InvalidPayloadError} for a body that is not of its encoding, or is larger.
 */
export function inflated(
  { body, contentEncoding }: Pick<Delivery, 'body' | 'contentEncoding'>,
  most: number,
): Promise<Uint8Array> | undefined {
  if (contentEncoding === undefined || body.byteLength === 0 || most === 0) return undefined
  const codings = contentEncoding.toLowerCase().split(',').reverse()
  const known = codings.map((coding) => coding.trim()).filter((coding) => ofCoding(coding))
  return known.length === 0 ? undefined : inflateAll(body, known, most)
}

const ofCoding = (coding: string): readonly Inflate[] | undefined =>
  Object.hasOwn(CODINGS, coding) ? CODINGS[coding] : undefined

/** Most codings of one body: each step may make the body a thousand times larger. */
const MOST_CODINGS = 4

async function inflateAll(
  body: Uint8Array,
  codings: readonly string[],
  most: number,
): Promise<Uint8Array> {
  if (codings.length > MOST_CODINGS) {
    throw new InvalidPayloadError(`The body has more than ${MOST_CODINGS} content encodings.`)
  }
  let bytes = body
  for (const coding of codings) bytes = await inflateOne(bytes, coding, most)
  return bytes
}

async function inflateOne(body: Uint8Array, coding: string, most: number): Promise<Uint8Array> {
  let cause: unknown
  for (const bytes of formsOf(body)) {
    for (const inflate of ofCoding(coding) ?? []) {
      try {
        return await inflate(bytes, { maxOutputLength: most })
      } catch (error) {
        if (Reflect.get(Object(error), 'code') === 'ERR_BUFFER_TOO_LARGE')
          throw tooLarge(coding, most)
        cause ??= error
      }
    }
  }
  const problem = `The body is not ${coding}, which its content encoding says.`
  const remedy = 'Fix the producer, or set `maxInflatedBytes: 0` and inflate the body in `decode`.'
  throw new InvalidPayloadError(`${problem} ${remedy}`, { cause })
}

/** One class, without a place: whether the text is base64 at all shows when it is inflated. */
const NOT_BASE64 = /[^A-Za-z0-9+/=\s]/

/** Brokers whose bodies are text, as those of SQS, carry compressed bytes as base64. */
function formsOf(body: Uint8Array): readonly Uint8Array[] {
  const text = Buffer.from(body.buffer, body.byteOffset, body.byteLength).toString('latin1')
  return NOT_BASE64.test(text) ? [body] : [body, Buffer.from(text, 'base64')]
}

function tooLarge(coding: string, most: number): InvalidPayloadError {
  return new InvalidPayloadError(
    `The body is ${coding} of more than ${most} bytes. If its producer is right, raise \`maxInflatedBytes\`, then replay the message.`,
  )
}
