/** The part of pg's `Pool` that {@link migrate} and {@link deadLetters} call. */
export interface PoolLike {
  connect(): Promise<PoolClientLike>
}

/** The part of pg's `PoolClient` that {@link migrate} and {@link deadLetters} call. */
export interface PoolClientLike {
  query(text: string, values?: readonly unknown[]): Promise<ClientAnswer>
  release(error?: Error | boolean): void
}

export interface ClientAnswer {
  readonly rows: readonly Readonly<Record<string, unknown>>[]
  readonly rowCount: number | null
}

/** BEGIN, `work`, COMMIT on one connection, in READ COMMITTED even if the user's default differs. */
export async function inTransaction<Result>(
  pool: PoolLike,
  work: (client: PoolClientLike) => Promise<Result>,
): Promise<Result> {
  const client = await pool.connect()
  let broken: Error | undefined
  try {
    await client.query('begin isolation level read committed read write')
    const result = await work(client)
    await client.query('commit')
    return result
  } catch (error) {
    await client.query('rollback').catch((failed: unknown) => {
      broken = failed instanceof Error ? failed : new Error(String(failed))
    })
    throw error
  } finally {
    client.release(broken)
  }
}
