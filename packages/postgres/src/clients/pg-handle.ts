import type { PoolClient, QueryResult } from 'pg'
import type { HandlerStatements, Refused, Settle } from '../transaction/handler-statements.ts'
import type { MappedText, NestedTransactions } from '../transaction/nested-transactions.ts'
import type { HandleGate } from '../transaction/refusing-handle.ts'
import type { LibraryControl } from './library-control.ts'
import { query as send } from './pg-query.ts'

type Callback = (error: unknown, answers?: unknown) => void

/** A query for pg: a text, a config with a text, or an object that submits itself (cursors, streams). */
interface QueryLike {
  readonly text?: unknown
  readonly submit?: unknown
  readonly cursor?: { readonly text?: unknown }
  callback?: unknown
  handleError?(error: unknown, connection: unknown): void
}

const REFUSED = new Set<PropertyKey>(['release', 'end', 'connect'])

/** What a client is, beside its connection, for the handlers of one transaction. */
export interface HandleParts {
  readonly gate: HandleGate
  readonly statements: HandlerStatements
  readonly nested: NestedTransactions
  /** Of a library that begins and ends transactions itself. */
  readonly library?: LibraryControl | undefined
}

/**
 * The user's client with all its ways to query (promises, callbacks, cursors), while the gate is open. A reference
 * kept after the transaction stays refused, although its connection serves other transactions.
 */
export function refusingClient(client: PoolClient, parts: HandleParts): PoolClient {
  const { gate, library, nested, statements } = parts
  const query = (...args: unknown[]): unknown => {
    const text = textOf(args[0])
    const answer = library?.answer(text)
    if (answer !== undefined) return answerLocally(answer, args)
    const closed = gate.refusal(text)
    if (closed !== undefined) return refuse(client, { error: closed, gate, text, statements }, args)
    const mapped = text === undefined ? undefined : nested.map(text, () => statements.isRunning)
    if (mapped instanceof Error) {
      if (library !== undefined) library.refused ??= mapped
      return refuse(client, { error: mapped, gate, text, statements }, args)
    }
    gate.sent(text, mapped?.text)
    const sent = mapped === undefined ? args : mappedArguments(mapped, args)
    if (!wantsPromise(args)) return Reflect.apply(client.query, client, sent)
    return statements.promise(({ fail, resolve }: Settle<unknown>) => {
      const callback: Callback = (error, answers) => (error ? fail(error) : resolve(answers))
      const [first, values] = sent as [string, unknown[] | undefined]
      send(client, first, mapped === undefined ? callback : noticing(callback, mapped), values)
    }, text)
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

/** Whether pg answers by a promise. */
function wantsPromise(args: readonly unknown[]): boolean {
  const [query] = args
  const { callback } = Object(query) as QueryLike
  return !isSubmittable(query) && typeof callback !== 'function' && !args.some(isCallback)
}

const isCallback = (arg: unknown): arg is Callback => typeof arg === 'function'

/** The arguments for a text with transaction control as it is mapped. */
function mappedArguments(mapped: MappedText, [first, ...rest]: readonly unknown[]): unknown[] {
  return [
    withText(first, mapped),
    ...rest.map((arg) => (isCallback(arg) ? noticing(arg, mapped) : arg)),
  ]
}

/** One statement may have been mapped to two: the answer of the first is what the handler asked for. */
const answerOf = (answers: unknown, { isAlone }: MappedText): unknown =>
  isAlone && Array.isArray(answers) ? answers[0] : answers

function withText(first: unknown, mapped: MappedText): unknown {
  const { text } = mapped
  if (typeof first === 'string') return text
  const query = first as QueryLike & { text: string }
  if (isSubmittable(query)) {
    query.text = text
    return query
  }
  const { callback } = query as QueryLike
  const noticed =
    typeof callback === 'function' ? { callback: noticing(callback as Callback, mapped) } : {}
  // The text depends on the depth, so it cannot be a prepared statement with one name.
  return { ...(first as object), ...noticed, text, name: undefined }
}

function noticing(callback: Callback, mapped: MappedText): Callback {
  return (error, answers) => {
    if (error) mapped.failed()
    callback(error, answerOf(answers, mapped))
  }
}

/** Answers as pg does, without the server. */
function answerLocally(answer: QueryResult, args: readonly unknown[]): unknown {
  const callback = args.find(isCallback)
  if (callback === undefined) return Promise.resolve(answer)
  process.nextTick(() => callback(undefined, answer))
  return undefined
}

interface RefusedCall extends Refused {
  readonly statements: HandlerStatements
}

/** Refuses as pg does on a dead connection: asynchronously, by promise, callback or event. */
function refuse(
  client: PoolClient,
  { error, gate, text, statements }: RefusedCall,
  args: readonly unknown[],
): unknown {
  const [query] = args
  const callback = args.find(isCallback)
  if (isSubmittable(query)) {
    query.callback ??= callback
    later(gate, () => query.handleError?.(error, client.connection))
    return query
  }
  const configured = (query as QueryLike | undefined)?.callback
  const listener =
    callback ?? (typeof configured === 'function' ? (configured as Callback) : undefined)
  if (listener === undefined) return statements.refused({ error, gate, text })
  later(gate, () => listener(error))
  return undefined
}

const later = (gate: Refused['gate'], refuse: () => void): void =>
  process.nextTick(() => gate.whenReported(refuse))

function isSubmittable(query: unknown): query is QueryLike {
  return (
    typeof query === 'object' && query !== null && typeof (query as QueryLike).submit === 'function'
  )
}
