import { createGuard, type Guard, type LeaseStore, type Logger } from '@onceward/core'
import { migrate } from '@onceward/postgres'
import { pgInbox } from '@onceward/postgres/pg'
import { Pool } from 'pg'
import { COMMON, EFFECTS, startPostgres } from './postgres-scenario.ts'
import type { Handle, Order } from './scenario.ts'
import type { Servers } from './servers.ts'

/** One database for all cells that are not about databases: each has a consumer of its own in it. */
export class SharedDatabase implements AsyncDisposable {
  readonly pool: Pool

  private constructor(url: string) {
    this.pool = new Pool({ connectionString: url, max: 60 })
    this.pool.on('error', () => undefined)
  }

  static of(servers: Servers): Promise<SharedDatabase> {
    return servers.of('shared database', async () => {
      const server = await startPostgres(servers)
      const shared = new SharedDatabase(await server.createDatabase())
      await migrate(shared.pool)
      await shared.pool.query(EFFECTS)
      return shared
    })
  }

  createGuard({ handle, transaction = 'each', ...options }: SharedGuard): Guard {
    return createGuard(
      {
        ...COMMON,
        ...options,
        ...{ transaction, concurrency: 4 },
        inbox: pgInbox(this.pool),
      },
      ({ payload, key, attempt }, { tx }) =>
        handle({ id: key, deed: (payload as Order).deed, attempt }, (text, values = []) =>
          tx.query(text, [...values]),
        ),
    )
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.pool.end()
  }
}

export interface SharedGuard {
  readonly consumer: string
  readonly transaction?: 'each' | 'batch' | undefined
  readonly leases?: LeaseStore | undefined
  readonly dedupWindowMs?: number | undefined
  readonly handle: Handle
  readonly logger: Logger
}
