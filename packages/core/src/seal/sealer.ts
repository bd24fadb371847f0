import { withTimeout } from '../concurrency/timeout.ts'
import type { Json } from '../model/brands.ts'
import type { Delivery } from '../model/delivery.ts'
import { messageOf, SealError } from '../model/errors.ts'
import type { CollectedMessage } from '../model/outbox.ts'
import type { Runtime } from '../model/runtime.ts'
import type { Seal, SealedField } from '../options/seal.ts'
import { fromJsonText } from '../support/json-text.ts'
import { isSealedResult, SEALED_RESULT } from '../support/sealed-result.ts'

/** Longest call of a function of the user, ms. The transaction of the event may be open meanwhile. */
const LONGEST_CALL_MS = 10_000

/** The one header of a sealed delivery, which holds the others. The field `sealed` says so, not the name. */
const HEADER = 'onceward-sealed'

/** Seals and opens the values of one consumer. Without hooks nothing is sealed, and nothing that is sealed can be opened. */
export class Sealer {
  readonly #hooks: Seal | undefined
  readonly #consumer: string
  readonly #runtime: Runtime

  constructor(
    hooks: Seal | undefined,
    { consumer, runtime }: { readonly consumer: string; readonly runtime: Runtime },
  ) {
    this.#hooks = hooks
    this.#consumer = consumer
    this.#runtime = runtime
  }

  /** @throws {@link SealError} */
  async seal(bytes: Uint8Array, field: SealedField): Promise<Uint8Array> {
    return this.#call('seal', bytes, field)
  }

  /** @throws {@link SealError} */
  async open(bytes: Uint8Array, field: SealedField): Promise<Uint8Array> {
    if (this.#hooks !== undefined) return this.#call('open', bytes, field)
    throw new SealError(
      `The stored ${field} of consumer "${this.#consumer}" is sealed, and nothing here can open it. Give the \`seal\` of its guard; until then it stays as it is.`,
    )
  }

  async #call(verb: keyof Seal, bytes: Uint8Array, field: SealedField): Promise<Uint8Array> {
    const hooks = this.#hooks as Seal
    const about = { consumer: this.#consumer, field }
    const call = `\`seal.${verb}\``
    try {
      const calling = Promise.resolve(hooks[verb](bytes, about))
      const limits = { call, budgetMs: LONGEST_CALL_MS }
      const answer: unknown = await withTimeout(this.#runtime, calling, limits)
      if (ArrayBuffer.isView(answer)) {
        return new Uint8Array(answer.buffer, answer.byteOffset, answer.byteLength)
      }
      throw new TypeError(`${call} answered ${answer === null ? 'null' : typeof answer}, not bytes`)
    } catch (cause) {
      const said = messageOf(cause).slice(0, 200)
      const what = `${field} of consumer "${this.#consumer}"`
      throw new SealError(
        verb === 'seal'
          ? `The ${what} could not be sealed, so it is not stored, and its event is tried again: ${said}. Check the function \`seal\` and its keys.`
          : `The stored ${what} could not be opened and stays as it is: ${said}. Give \`seal\` the key that sealed it.`,
        { cause },
      )
    }
  }
}

/** A copy to be stored: the message of the client and hints about this delivery are never stored. */
export async function sealDelivery(sealer: Sealer, delivery: Delivery): Promise<Delivery> {
  const { body, contentEncoding, contentType, envelope, headers, item } = delivery
  const { messageId, orderingKey, producedAt, source } = delivery
  const [sealedBody, sealedHeaders, sealedEnvelope] = await Promise.all([
    sealer.seal(body, 'body'),
    sealTexts(sealer, headers),
    envelope && sealer.seal(envelope, 'envelope'),
  ])
  return {
    ...{ contentEncoding, contentType, item, messageId, orderingKey, producedAt, source },
    body: sealedBody,
    headers: sealedHeaders,
    envelope: sealedEnvelope,
    sealed: true,
  }
}

/**
 * The delivery as it was before it was sealed. One that is not sealed is answered as it is.
 *
 * @throws {@link SealError}
 */
export async function openDelivery(sealer: Sealer, delivery: Delivery): Promise<Delivery> {
  const { sealed, ...stored } = delivery
  if (sealed !== true) return delivery
  const { body, envelope, headers } = stored
  const [openedBody, openedHeaders, openedEnvelope] = await Promise.all([
    sealer.open(body, 'body'),
    openTexts(sealer, headers),
    envelope && sealer.open(envelope, 'envelope'),
  ])
  return {
    ...stored,
    body: openedBody,
    headers: openedHeaders,
    ...(openedEnvelope === undefined ? {} : { envelope: openedEnvelope }),
  }
}

async function sealTexts(
  sealer: Sealer,
  headers: Delivery['headers'],
): Promise<Readonly<Record<string, string>>> {
  // A custom consumer may add a value that JSON refuses, such as a BigInt.
  const texts = Object.entries(headers).filter(([, value]) => typeof value === 'string')
  const bytes = Buffer.from(JSON.stringify(Object.fromEntries(texts)))
  return { [HEADER]: base64(await sealer.seal(bytes, 'headers')) }
}

async function openTexts(
  sealer: Sealer,
  headers: Delivery['headers'],
): Promise<Readonly<Record<string, string>>> {
  const sealed = Buffer.from(headers[HEADER] ?? '', 'base64')
  return JSON.parse(Buffer.from(await sealer.open(sealed, 'headers')).toString())
}

/** The message as it is stored. */
export async function sealMessage(
  sealer: Sealer,
  message: CollectedMessage,
): Promise<CollectedMessage> {
  const [payload, headers] = await Promise.all([
    sealer.seal(message.payload, 'payload'),
    sealTexts(sealer, message.headers),
  ])
  return { ...message, payload, headers, sealed: true }
}

/**
 * The plain headers and payload of a message that {@link sealMessage} has sealed.
 *
 * @throws {@link SealError}
 */
export async function openMessage(
  sealer: Sealer,
  { headers, payload }: Pick<CollectedMessage, 'headers' | 'payload'>,
): Promise<Pick<CollectedMessage, 'headers' | 'payload'>> {
  const [opened, texts] = await Promise.all([
    sealer.open(payload, 'payload'),
    openTexts(sealer, headers),
  ])
  return { payload: opened, headers: texts }
}

/** The JSON text to store for the JSON text of a result. */
export async function sealResult(sealer: Sealer, text: string): Promise<string> {
  return JSON.stringify({
    [SEALED_RESULT]: base64(await sealer.seal(Buffer.from(text), 'result')),
  })
}

/**
 * The result as the handler returned it.
 *
 * @throws {@link SealError}
 */
export async function openResult(
  sealer: Sealer,
  result: Json | undefined,
): Promise<Json | undefined> {
  if (!isSealedResult(result)) return result
  const opened = await sealer.open(Buffer.from(result[SEALED_RESULT], 'base64'), 'result')
  return fromJsonText(Buffer.from(opened).toString()) as Json
}

const base64 = (bytes: Uint8Array): string =>
  Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString('base64')
