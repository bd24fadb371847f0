import type { Delivery } from '../model/delivery.ts'
import { ConfigurationError, ConflictError } from '../model/errors.ts'
import { attachPort, type Guard, type ProcessOptions } from '../model/guard-port.ts'
import type { Settlement } from '../model/settlement.ts'
import { types } from '../node.ts'
import type {
  BatchHandler,
  BatchRouterOptions,
  GuardOptions,
  Handler,
  InboxGuardOptions,
  Route,
  RouterOptions,
} from '../options/options.ts'
import type { CallerRetries, ResolvedOptions } from '../options/resolved-options.ts'
import { forCaller } from '../support/caller.ts'
import { hasMethod, refuseUnknownNames } from '../support/wrong-arguments.ts'
import type { HandlerCall } from '../transaction/engine.ts'
import { resolveOptions } from './resolve-options.ts'
import { RunningGuard } from './running-guard.ts'

/**
 * Guards a handler for each type of message: one consumer and one inbox, and the type chooses schema and handler.
 *
 * @throws {@link ConfigurationError} naming every invalid option.
 *
 * @example
 * ```ts
 * import { createGuard, header } from '@onceward/core'
 * import { pgInbox } from '@onceward/postgres/pg'
 *
 * const orders = createGuard({
 *   consumer: 'orders',
 *   inbox: pgInbox(pool),
 *   type: header('x-type'),
 *   on: {
 *     'order.placed': {
 *       schema: OrderPlaced,
 *       handler: async ({ payload }, { tx }) => {
 *         await tx.query('insert into orders (id) values ($1)', [payload.orderId])
 *       },
 *     },
 *     'order.cancelled': {
 *       handler: async ({ key }, { tx }) => {
 *         await tx.query('delete from orders where id = $1', [key])
 *       },
 *     },
 *   },
 * })
 * ```
 */
export function createGuard<Payloads, Tx = undefined, Decoded = unknown>(
  options: RouterOptions<Payloads, Tx, Decoded>,
): Guard<Payloads[keyof Payloads]>
/**
 * Guards a handler: the committed effect of each event happens once, however often the broker delivers the event.
 *
 * With an inbox, the handler writes through `tx`, the transaction that also holds the event's row. Without an inbox
 * (`leases` alone), effects outside Postgres are *not* exactly once. `onTakeover` then decides what to do when an
 * earlier attempt may have happened.
 *
 * @throws {@link ConfigurationError} naming every invalid option.
 *
 * @example
 * ```ts
 * import { createGuard } from '@onceward/core'
 * import { pgInbox } from '@onceward/postgres/pg'
 *
 * const billing = createGuard(
 *   {
 *     consumer: 'billing',
 *     inbox: pgInbox(pool),
 *     schema: OrderPlaced,
 *     eventKey: ({ payload }) => payload.orderId,
 *   },
 *   async ({ payload: { orderId, cents } }, { tx }) => {
 *     await tx.query('insert into charges (order_id, cents) values ($1, $2)', [orderId, cents])
 *   },
 * )
 * ```
 */
export function createGuard<Tx = undefined, Decoded = unknown, Payload = Decoded, Result = unknown>(
  options: GuardOptions<Payload, Tx, Decoded>,
  handler: Handler<Payload, Tx, Result>,
): Guard<Payload, Awaited<Result>>
export function createGuard(options: object, handler?: unknown): Guard {
  return forCaller(createGuard, () => {
    const given = options as GuardOptions<unknown, unknown>
    const resolved = resolveOptions(given)
    return makeGuard(resolved, callOf('createGuard', { options, handler }, SINGLE))
  })
}

interface Kind<Name extends HandlerCall['kind']> {
  readonly kind: Name
  readonly example: string
}

const SINGLE: Kind<'single'> = { kind: 'single', example: 'async (event, { tx }) => { … }' }
const BATCH: Kind<'batch'> = { kind: 'batch', example: 'async (events, { tx }) => { … }' }

/** The handler, or the handlers by type. */
function callOf(
  caller: string,
  { handler, options }: { readonly options: object; readonly handler: unknown },
  { example, kind }: Kind<HandlerCall['kind']>,
): HandlerCall {
  const { on } = options as { readonly on?: Readonly<Record<string, Route<unknown, unknown>>> }
  if (on === undefined) {
    assertHandler(caller, handler, example)
    return { kind, handler } as HandlerCall
  }
  if (handler !== undefined) {
    throw new ConfigurationError(
      `Expected no second argument of ${caller} beside \`on\`, got ${handler === null ? 'null' : typeof handler}. Each type has its handler: move this one to the type that it is for.`,
    )
  }
  const byType = new Map(Object.entries(on).map(([type, route]) => [type, route.handler]))
  return { kind, handler: noHandler, byType } as HandlerCall
}

/** The run of an event whose type is unknown fails before. */
function noHandler(): never {
  throw new Error('No event of a guard with `on` runs without its type.')
}

/**
 * Guards a handler for each type of message, and each takes several events at once. Neighbours of one type are one call of its handler, in the order of
 * delivery, so a handler may be called several times for a batch. All calls of a batch share its transaction.
 *
 * @throws {@link ConfigurationError}
 */
export function createBatchGuard<Payloads, Tx, Decoded = unknown>(
  options: BatchRouterOptions<Payloads, Tx, Decoded>,
): Guard<Payloads[keyof Payloads]>
/**
 * Like {@link createGuard}, for a handler that takes all events of a transaction at once. A failed batch is split until
 * the failing event runs alone, so a poison message does not fail the other events.
 *
 * @throws {@link ConfigurationError}
 *
 * @example
 * ```ts
 * import { createBatchGuard } from '@onceward/core'
 * import { pgInbox } from '@onceward/postgres/pg'
 *
 * const billing = createBatchGuard(
 *   { consumer: 'billing', inbox: pgInbox(pool), schema: OrderPlaced },
 *   async (events, { tx }) => {
 *     const ids = events.map(({ payload }) => payload.orderId)
 *     await tx.query('insert into charges (order_id) select * from unnest($1::text[])', [ids])
 *   },
 * )
 * ```
 */
export function createBatchGuard<Tx, Decoded = unknown, Payload = Decoded>(
  options: Omit<InboxGuardOptions<Payload, Tx, Decoded>, 'transaction'>,
  handler: BatchHandler<Payload, Tx>,
): Guard<Payload>
export function createBatchGuard(options: object, handler?: unknown): Guard {
  return forCaller(createBatchGuard, () => {
    const given = sharingOne(options) as InboxGuardOptions<unknown, unknown>
    const resolved = resolveOptions(given, 'createBatchGuard')
    return makeGuard(resolved, callOf('createBatchGuard', { options, handler }, BATCH))
  })
}

/** One transaction for the batch. Any other wish is left in place, so that it is refused. */
function sharingOne<Given extends object>(options: Given): Given & { transaction: 'batch' } {
  if (typeof options !== 'object' || options === null) return options
  const { transaction = 'batch' } = options as { transaction?: 'batch' }
  // The prototype is kept, because options on it are refused.
  return { __proto__: Object.getPrototypeOf(options), ...options, transaction } as never
}

/**
 * Makes a guard whose callers wait for each outcome and retry themselves, as the clients of an HTTP route do.
 *
 * @param caller - The function that the user called, for error texts.
 * @throws {@link ConfigurationError}
 */
export function createCallerGuard(
  caller: string,
  options: GuardOptions<unknown, unknown>,
  { handler, ...callerRetries }: CallerRetries & { readonly handler: Handler<unknown, unknown> },
): Guard {
  const resolved = { ...resolveOptions(options, caller), callerRetries }
  return makeGuard(resolved, { kind: 'single', handler })
}

function assertHandler(caller: string, handler: unknown, example: string): void {
  if (typeof handler === 'function') return
  throw new ConfigurationError(
    `Expected a handler as the second argument of ${caller}, got ${handler === null ? 'null' : typeof handler}. Write \`${caller}(options, ${example})\`, or give \`on\` a handler for each type.`,
  )
}

function makeGuard(options: ResolvedOptions, call: HandlerCall): Guard {
  const port = new RunningGuard(options, call)
  const guard: Guard = {
    consumer: options.consumer,
    process: (delivery, given) => {
      const error =
        deliveryError('The argument of `process`', delivery) ?? optionsError('process', given)
      if (error !== undefined) return Promise.reject(error)
      return port.run([delivery], given ?? undefined).then(([settlement]) => {
        if (settlement?.kind === 'defer') throwIfAsked(options, settlement)
        return settlement as Settlement
      })
    },
    processBatch: (deliveries, given) => {
      const error = deliveriesError(deliveries) ?? optionsError('processBatch', given)
      if (error !== undefined) return Promise.reject(error)
      return port.run(deliveries, given ?? undefined).then((settlements) => {
        for (const settlement of settlements)
          if (settlement.kind === 'defer') throwIfAsked(options, settlement)
        return settlements
      })
    },
    close: () => port.close(),
  }
  attachPort(guard, port)
  return guard
}

/** The error of options that the call does not know. `map(guard.process)` passes an index as well, and nobody means it as options. */
function optionsError(
  caller: string,
  given: ProcessOptions | undefined,
): ConfigurationError | undefined {
  if (typeof given !== 'object' || given === null) return undefined
  try {
    refuseUnknownNames(caller, given, { needsResult: true })
    return undefined
  } catch (error) {
    return error as ConfigurationError
  }
}

/** Throws configuration errors to the caller, and conflicts if the user chose `onConflict: 'throw'`. */
function throwIfAsked(
  options: ResolvedOptions,
  settlement: Extract<Settlement, { kind: 'defer' }>,
): void {
  const { error } = settlement
  if (settlement.reason === 'store-down' && error instanceof ConfigurationError) throw error
  if (options.onConflict === 'throw' && error instanceof ConflictError) throw error
}

const MADE_BY =
  'Make it of the message of the client with the `from…Message` of your adapter, or write the fields of `Delivery`.'

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
    const { contentType, contentEncoding, envelope, messageId } = value ?? {}
    const { orderingKey, producedAt } = value ?? {}
    const isBare = contentType === undefined && messageId === undefined && orderingKey === undefined
    const isPlain = contentEncoding === undefined && envelope === undefined
    if (isBare && isPlain && producedAt === undefined) return undefined
    const texts = { contentType, contentEncoding, messageId, orderingKey }
    return optionalError(name, { ...texts, envelope, producedAt })
  }
  const what = typeName(value)
  const fields = `\`body\` is ${typeName(body)}, \`headers\` ${typeName(headers)} and \`source\` ${typeName(source)}`
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
      `${name} is not usable: expected ${wanted} or undefined, but \`${field}\` is ${typeName(value)}. ${help}`,
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
      `The argument of \`processBatch\` is ${typeName(all)}, and not an array of deliveries. For one delivery there is \`process\`.`,
    )
  }
  for (let index = 0; index < all.length; index++) {
    const error = deliveryError(`Delivery ${index} of \`processBatch\``, all[index])
    if (error !== undefined) return error
  }
  return undefined
}

/** Says what a value is, and never what is in it: it may be a payload. */
function typeName(value: unknown): string {
  if (value === null) return 'null'
  if (types.isUint8Array(value)) return 'bytes'
  if (Array.isArray(value)) return 'an array'
  return typeof value === 'object' && Symbol.iterator in value ? 'an iterable' : typeof value
}
