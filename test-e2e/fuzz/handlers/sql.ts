import { CompiledQuery, type Transaction } from 'kysely'
import type pg from 'pg'
import type { Playing } from './playing.ts'
import type { Shared } from './shared.ts'

export type Sql = Playing['sql']

/** Undefined without SQL. */
export function sqlOf({ plan }: Shared, tx: unknown): Sql | undefined {
  if (plan.driver === 'memory') return undefined
  if (plan.driver === 'pg') {
    return async (text, values = []) =>
      (await (tx as pg.PoolClient).query(text, values.length > 0 ? [...values] : undefined)).rows
  }
  return async (text, values = []) =>
    (await (tx as Transaction<never>).executeQuery(CompiledQuery.raw(text, [...values])))
      .rows as readonly Record<string, unknown>[]
}

/** Every look at the text but the first finds another one. */
export function slySql(
  { plan }: Shared,
  tx: unknown,
  first: string,
  then: string,
): Promise<unknown> {
  let looks = 0
  const look = (): string => {
    looks += 1
    return looks > 1 ? then : first
  }
  if (plan.driver === 'pg') {
    const query = Object.defineProperty({}, 'text', { get: look, enumerable: true })
    return (tx as pg.PoolClient).query(query as pg.QueryConfig)
  }
  const query = Object.defineProperty({ ...CompiledQuery.raw('') }, 'sql', { get: look })
  return (tx as Transaction<never>).executeQuery(query)
}
