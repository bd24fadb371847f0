import type { HandlerStatements } from '../transaction/handler-statements.ts'

/**
 * A transaction or a query of Kysely as it is, but the promises of its statements know whether they are awaited. Kysely
 * makes them itself. Everything that it builds is treated likewise, such as `tx.insertInto(…).values(…)`; the promise of a
 * `` sql`…`.execute(tx) `` is not made here.
 */
export function watchedBuilder<Builder extends object>(
  builder: Builder,
  statements: HandlerStatements,
): Builder {
  const watched = (value: unknown): unknown =>
    isBuilder(value) ? watchedBuilder(value, statements) : value
  return new Proxy(builder, {
    get: (target, property) => {
      // Kysely has private fields, so `this` is never the proxy.
      const value: unknown = Reflect.get(target, property, target)
      if (typeof value !== 'function') return watched(value)
      // `tx.fn` is a function with functions, and `sql` takes the executor as it is.
      if (Object.keys(value).length > 0) return value
      if (property === 'getExecutor') return value.bind(target)
      const call = (args: readonly unknown[]): unknown => Reflect.apply(value, target, args)
      return EXECUTES.test(String(property))
        ? (...args: unknown[]) => statements.outer(() => call(args))
        : (...args: unknown[]) => watched(call(args))
    },
  })
}

const EXECUTES = /^(?:execute|explain)/

/** Whether the value is of a class of Kysely. Its queries stream as generators, and its nodes are plain objects. */
function isBuilder(value: unknown): value is object {
  if (typeof value !== 'object' || value === null) return false
  if (Array.isArray(value) || value instanceof Promise || Symbol.asyncIterator in value)
    return false
  const prototype: unknown = Object.getPrototypeOf(value)
  return prototype !== Object.prototype && prototype !== null
}
