import { Pool } from 'pg'
import { CONCURRENCY } from '../runner/rounds.ts'
import type { Surroundings } from './rival.ts'

/** The same for each contestant. The guard keeps two of them for itself. */
export const CONNECTIONS: number = CONCURRENCY + 2

export function openPool(
  { databaseUrl }: Pick<Surroundings, 'databaseUrl'>,
  stack: AsyncDisposableStack,
  Kind: typeof Pool = Pool,
): Pool {
  const pool = new Kind({ connectionString: databaseUrl, max: CONNECTIONS })
  pool.on('error', () => undefined)
  stack.defer(() => pool.end())
  return pool
}

export async function withPool<Result>(
  databaseUrl: string,
  work: (pool: Pool) => Promise<Result>,
): Promise<Result> {
  await using stack = new AsyncDisposableStack()
  return await work(openPool({ databaseUrl }, stack))
}

export function execute(databaseUrl: string, text: string): Promise<void> {
  return withPool(databaseUrl, async (pool) => {
    await pool.query(text)
  })
}
