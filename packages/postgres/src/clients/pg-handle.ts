import type { OncewardError } from '@onceward/core'
import type { PoolClient } from 'pg'
import type { HandleGate } from '../transaction/refusing-handle.ts'

type Callback = (error: unknown) => void

/** A query for pg: a text, a config with a text, or an object that submits itself (cursors, streams). */
interface QueryLike {
  readonly text?: unknown
  readonly submit?: unknown
  readonly cursor?: { readonly text?: unknown }
  callback?: unknown
  handleError?(error: unknown, connection: unknown): void
}

const REFUSED = new Set<PropertyKey>(['release', 'end', 'connect'])

/**
 * The user's client with all its ways to query (promises, callbacks, cursors), while the gate is open. A reference
 * kept after the transaction stays refused, although its connection serves other transactions.
 */
export function refusingClient(client: PoolClient, gate: HandleGate): PoolClient {
  const query = (...args: unknown[]): unknown => {
    const text = textOf(args[0])
    const refusal = gate.refusal(text)
    if (refusal !== undefined) return refuse(client, refusal, args)
    gate.sent(text)
    return Reflect.apply(client.query, client, args)
  }
  let replaced: Map<PropertyKey, unknown> | undefined
  return new Proxy(client, {
    get: (target, property) => {
      if (replaced?.has(property) === true) return replaced.get(property)
      if (property === 'query') return query
      if (REFUSED.has(property)) return notYours(property)
      return Reflect.get(target, property)
    },
    // Handlers put functions of their own in place of these, to log statements. On the client itself they would be called
    // by later transactions, and then end in this handle, which refuses by then. An assignment comes here too.
    defineProperty: (target, property, descriptor) => {
      if (property !== 'query' && !REFUSED.has(property)) {
        return Reflect.defineProperty(target, property, descriptor)
      }
      replaced ??= new Map()
      replaced.set(property, descriptor.value)
      return true
    },
  })
}

function notYours(property: PropertyKey): () => never {
  return () => {
    throw new TypeError(
      `The client of a guarded transaction belongs to onceward: do not call ${String(property)}().`,
    )
  }
}

function textOf(query: unknown): string | undefined {
  if (typeof query === 'string') return query
  if (typeof query !== 'object' || query === null) return undefined
  const { text, cursor } = query as QueryLike
  // pg-query-stream wraps a cursor.
  const found = text ?? cursor?.text
  return typeof found === 'string' ? found : undefined
}

/** Refuses as pg does on a dead connection: asynchronously, by promise, callback or event. */
function refuse(client: PoolClient, error: OncewardError, args: readonly unknown[]): unknown {
  const [query] = args
  const callback = args.find((arg): arg is Callback => typeof arg === 'function')
  if (isSubmittable(query)) {
    query.callback ??= callback
    process.nextTick(() => query.handleError?.(error, client.connection))
    return query
  }
  const configured = (query as QueryLike | undefined)?.callback
  const listener =
    callback ?? (typeof configured === 'function' ? (configured as Callback) : undefined)
  if (listener === undefined) return Promise.reject(error)
  process.nextTick(() => listener(error))
  return undefined
}

function isSubmittable(query: unknown): query is QueryLike {
  return (
    typeof query === 'object' && query !== null && typeof (query as QueryLike).submit === 'function'
  )
}
