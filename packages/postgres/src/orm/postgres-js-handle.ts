import { type OncewardError, StoreUnavailableError } from '@onceward/core'
import type { TransactionSql } from 'postgres'
import { refusedControl } from '../transaction/refusing-handle.ts'
import type { StatementWatch } from './statement-watch.ts'

/** What is used of a query of postgres.js, which is sent when it is first awaited. */
export interface PostgresJsQuery extends Promise<unknown> {
  /** The texts around the values. */
  readonly strings: readonly string[]
  readonly args: readonly unknown[]
  /** Sends it. */
  handler: Handler
  /** Of a cursor. */
  readonly cursorRows?: number
  active: boolean
  reject(error: unknown): void
  cancel(): unknown
}

type Handler = ((query: PostgresJsQuery) => unknown) & { debug?: unknown }

/** Queries that run now. */
export type Running = Set<PostgresJsQuery>

export interface HandleParts {
  readonly watch: StatementWatch
  readonly running: Running
  /** Whether the connection of the transaction is over. */
  readonly isOver: () => boolean
}

const LOST = 'The connection of the transaction was lost, so no statement is sent.'

/** Why a statement must not be sent. Undefined if it may. */
function refusalOf(
  { isOver, watch }: HandleParts,
  text: string | undefined,
): OncewardError | undefined {
  return isOver() ? new StoreUnavailableError(LOST) : watch.refusal(text)
}

/**
 * The user's `TransactionSql`, whose queries pass the watch when they are sent: those of tagged templates, of `unsafe` and
 * of `file`, and those of savepoints.
 */
export function guardedSql<Sql extends TransactionSql>(sql: Sql, parts: HandleParts): Sql {
  const { watch } = parts
  const watched = (value: unknown): unknown => (isQuery(value) ? watchedQuery(value, parts) : value)
  const savepoint = (...args: unknown[]): Promise<unknown> => {
    const refusal = refusalOf(parts, 'savepoint')
    if (refusal !== undefined) return watch.refuse(refusal, 'savepoint')
    const over = Promise.withResolvers<never>()
    const guarded = args.map((arg) =>
      typeof arg === 'function' ? nestedWork(arg as Work<Sql>, parts, over.reject) : arg,
    )
    return watch.nested(() =>
      Promise.race([Reflect.apply(sql.savepoint, sql, guarded), over.promise]),
    )
  }
  const replaced: Readonly<Record<PropertyKey, unknown>> = {
    unsafe: (...args: unknown[]) => watched(Reflect.apply(sql.unsafe, sql, args)),
    file: (...args: unknown[]) => watched(Reflect.apply(sql.file, sql, args)),
    savepoint,
    // That of postgres.js takes another connection, so it would be sent although the handler fails.
    notify: (channel: string, payload: string) =>
      watched(sql`select pg_catalog.pg_notify(${channel}, ${payload})`),
    prepare: () => {
      watch.refused ??= refusedControl('prepare transaction')
      throw watch.refused
    },
  }
  return new Proxy(sql, {
    apply: (target, self, args) => watched(Reflect.apply(target, self, args)),
    get: (target, property) =>
      Object.hasOwn(replaced, property) ? replaced[property] : Reflect.get(target, property),
  })
}

type Work<Sql> = (inner: Sql) => unknown

/** postgres.js sends ROLLBACK TO when the work fails, so the work of a lost connection never ends. */
function nestedWork<Sql extends TransactionSql>(
  work: Work<Sql>,
  parts: HandleParts,
  fail: (error: unknown) => void,
): Work<Sql> {
  return async (inner) => {
    try {
      const answer = await work(guardedSql(inner, parts))
      return Array.isArray(answer) ? await Promise.all(answer) : answer
    } catch (error) {
      if (!parts.isOver()) throw error
      fail(error)
      return new Promise(() => undefined)
    }
  }
}

function isQuery(value: unknown): value is PostgresJsQuery {
  return value instanceof Promise && 'handler' in value && 'strings' in value
}

function watchedQuery(query: PostgresJsQuery, parts: HandleParts): PostgresJsQuery {
  const { running, watch } = parts
  const send = query.handler
  const handler: Handler = (sent) => {
    const refusal = refusalOf(parts, textOf(sent))
    if (refusal !== undefined) {
      sent.reject(refusal)
      // `execute()` sends a query that nobody may await, and Node would end the process.
      sent.catch(() => undefined)
      return
    }
    running.add(sent)
    send(sent)
    const answer = sent.cursorRows === undefined ? sent : endOf(sent)
    watch.sent(answer)
    const ended = (): void => void running.delete(sent)
    answer.then(ended, ended)
  }
  query.handler = Object.assign(handler, { debug: send.debug })
  return query
}

/** The text of a query. Undefined if it is read from a file. */
function textOf({ strings, args }: Pick<PostgresJsQuery, 'strings' | 'args'>): string | undefined {
  if (strings.length === 0) return undefined
  return strings
    .map((part, index) => part + (index + 1 < strings.length ? shown(args[index]) : ''))
    .join('')
}

/** A value as a part of the text: fragments are queries too. */
function shown(value: unknown): string {
  if (isQuery(value)) return textOf(value) ?? ''
  return Array.isArray(value) ? value.map(shown).join(' ') : '?'
}

/** The promise of a query that is read by a cursor never settles. The connection says when it has ended. */
function endOf(query: PostgresJsQuery): Promise<void> {
  const { promise, resolve } = Promise.withResolvers<void>()
  let { active } = query
  void Object.defineProperty(query, 'active', {
    get: () => active,
    set: (is: boolean) => {
      active = is
      if (!is) resolve()
    },
  })
  return promise
}
