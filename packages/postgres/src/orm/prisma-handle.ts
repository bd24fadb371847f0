import { RetryableError } from '@onceward/core'
import type { StatementWatch } from './statement-watch.ts'

type Call = (...args: readonly unknown[]) => unknown

/** Prisma runs a query when somebody awaits it, and again each time for a query outside of a transaction. */
interface LazyQuery extends PromiseLike<unknown> {
  readonly [Symbol.toStringTag]: 'PrismaPromise'
}

/**
 * The transaction client of Prisma with all its ways to query, while the gate of the watch is open. Prisma has no status of a
 * transaction, so every query passes the watch, also those of nested transactions.
 */
export function watchedPrisma<Tx extends object>(tx: Tx, watch: StatementWatch): Tx {
  return new Proxy(tx, {
    get: (target, property) => {
      const value: unknown = Reflect.get(target, property, target)
      if (typeof property === 'symbol' || value === null) return value
      if (typeof value === 'function') {
        const call: Call = (...args) => Reflect.apply(value, target, args)
        if (property === '$transaction') return nested(call, watch)
        if (RAW.test(property)) return raw(property, call, watch)
        // A function of the user's, which `$extends` has added.
        return (...args: unknown[]) => watched('', () => call(...args), watch)
      }
      return typeof value === 'object' ? watchedModel(value, property, watch) : value
    },
  })
}

/** The queries of one model, such as `tx.charge`. */
function watchedModel(model: object, name: string, watch: StatementWatch): object {
  return new Proxy(model, {
    get: (target, property) => {
      const value: unknown = Reflect.get(target, property, target)
      if (typeof value !== 'function' || typeof property === 'symbol') return value
      const title = WRITES.test(property) ? `tx.${name}.${property}` : ''
      return (...args: unknown[]) => watched(title, () => Reflect.apply(value, target, args), watch)
    },
  })
}

const RAW = /^\$(?:query|execute)Raw/
const WRITES = /^(?:create|update|upsert|delete)/

/** `$queryRaw`, `$executeRaw` and their unsafe forms: their texts may end the transaction, or change settings. */
const raw =
  (name: string, call: Call, watch: StatementWatch): Call =>
  (...args) => {
    const text = textOf(args[0])
    const refusal = watch.refusal(text)
    if (refusal !== undefined) return watch.refuse(refusal, text)
    return watched(`tx.${name}`, () => call(...args), watch)
  }

/** Of a template, a `Prisma.sql`, a typed query or a plain text. */
function textOf(query: unknown): string | undefined {
  if (typeof query === 'string') return query
  if (Array.isArray(query)) return query.join(' ')
  const { sql, strings } = Object(query) as { readonly sql?: unknown; readonly strings?: unknown }
  if (Array.isArray(strings)) return strings.join(' ')
  return typeof sql === 'string' ? sql : undefined
}

/** A savepoint, with a client of its own, or several queries one after the other. */
const nested =
  (call: Call, watch: StatementWatch): Call =>
  (work, ...options) => {
    const refusal = watch.refusal('')
    if (refusal !== undefined) return watch.refuse(refusal, 'savepoint')
    const run = (): PromiseLike<unknown> =>
      call(workOf(work, watch), ...options) as Promise<unknown>
    return watch.nested(run)
  }

/** Prisma sends a list over a connection of its own, with a COMMIT of its own. So the queries of a list run in a savepoint. */
function workOf(work: unknown, watch: StatementWatch): unknown {
  if (typeof work === 'function')
    return (inner: object) => work(watchedPrisma(inner, watch)) as unknown
  if (!Array.isArray(work)) return work
  // Looking at a query also says that it is not forgotten.
  const isOwn = work.map((query: unknown) => isLazy(query) && owners.get(query) === watch)
  return async () => {
    if (isOwn.includes(false)) throw new RetryableError(OTHER_CLIENT)
    const answers: unknown[] = []
    for (const query of work as readonly LazyQuery[]) answers.push(await query)
    return answers
  }
}

/** The transactions that made the queries of handlers. */
const owners = new WeakMap<object, StatementWatch>()

const OTHER_CLIENT =
  'The list of `tx.$transaction([…])` holds what is no query of `tx`, so it would not be part of the event: make each query with `tx`, and do not await it.'

/** What is used of a request of Prisma. */
interface Request {
  readonly model?: string
  readonly action?: string
  readonly clientMethod?: string
  readonly transaction?: { readonly kind?: string }
}

type Execute = (request: Request) => Promise<unknown>

/**
 * The client, for one transaction. Extensions, as those for row-level security, may put a query of the transaction into a
 * list of the client that they extend: Prisma then takes it out of the transaction. Such a query is refused.
 */
export function refusingLists<Client extends object>(
  client: Client,
  watch: StatementWatch,
): Client {
  return new Proxy(client, {
    get: (target, property) => {
      const value: unknown = Reflect.get(target, property, target)
      if (property === '_executeRequest') return execute(value as Execute, watch)
      // Prisma makes the client of a transaction of the one that it keeps under a symbol.
      const isInner = typeof property === 'symbol' || property === '_appliedParent'
      return isInner && isClient(value) ? refusingLists(value, watch) : value
    },
  })
}

const isClient = (value: unknown): value is object =>
  typeof value === 'object' && value !== null && '_executeRequest' in value

function execute(send: Execute, watch: StatementWatch): Execute {
  return function (this: unknown, request) {
    if (request.transaction?.kind !== 'batch') return Reflect.apply(send, this, [request])
    const { action, clientMethod, model } = request
    const title = model === undefined ? clientMethod : `${model}.${action}`
    watch.refused ??= new RetryableError(
      `The query \`${title}\` of the handler was put into \`$transaction([…])\` of another client, as extensions for row-level security do, so it would be committed outside of the event's transaction. Give prismaInbox a client without that extension, and send its settings first with \`tx.$executeRaw\`.`,
    )
    return Promise.reject(watch.refused)
  }
}

/** What a function of Prisma answers: a query that waits to be awaited, or the promise of a function of the user's. */
function watched(title: string, call: () => unknown, watch: StatementWatch): unknown {
  const refusal = watch.refusal('')
  if (refusal !== undefined) return watch.refuse(refusal, title || undefined)
  const answer = call()
  if (isLazy(answer)) return watchedQuery(answer, title, watch)
  if (answer instanceof Promise) watch.sent(answer)
  return answer
}

function isLazy(value: unknown): value is LazyQuery {
  return (Object(value) as Partial<LazyQuery>)[Symbol.toStringTag] === 'PrismaPromise'
}

/** A query that is sent, through the watch, once somebody awaits it. */
function watchedQuery(query: LazyQuery, title: string, watch: StatementWatch): LazyQuery {
  let sent: Promise<unknown> | undefined
  if (title !== '') watch.unsent.set(query, title)
  const send = (): Promise<unknown> => {
    sent ??= Promise.resolve(watch.statement('', () => Promise.resolve(query)))
    return sent
  }
  const watching = new Proxy(query, {
    get: (target, property) => {
      watch.unsent.delete(target)
      if (property === 'then' || property === 'catch' || property === 'finally') {
        return (...args: unknown[]) => Reflect.apply(send()[property] as Call, sent, args)
      }
      const value: unknown = Reflect.get(target, property, target)
      if (typeof value !== 'function') return value
      // The next step of a relation, such as `tx.order.findUnique(…).charges()`, or a member of `$transaction([…])`.
      return (...args: unknown[]) => {
        const next: unknown = Reflect.apply(value, target, args)
        return isLazy(next) ? watchedQuery(next, '', watch) : next
      }
    },
  })
  owners.set(watching, watch)
  return watching
}
