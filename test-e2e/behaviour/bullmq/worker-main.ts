import { bullmqProcessor } from '@onceward/bullmq'
import { createGuard } from '@onceward/core'
import { pgInbox } from '@onceward/postgres/pg'
import { createPostgresBackend, Worker, withBackend } from 'bullmq'
import pg from 'pg'

/** What the worker is told. */
export interface WorkerSettings {
  readonly queue: string
  readonly postgres: string
  /** Undefined: BullMQ keeps its jobs in PostgreSQL. */
  readonly redis: string | undefined
  /** Where the process kills itself, at the first job. */
  readonly dies: 'in the handler' | 'before the completion' | undefined
}

const { dies, postgres, queue, redis } = JSON.parse(process.argv[2] ?? '') as WorkerSettings
const die = (): boolean => process.kill(process.pid, 'SIGKILL')

const guard = createGuard(
  {
    ...{ consumer: 'billing', inbox: pgInbox({ connectionString: postgres, max: 10 }) },
    eventKey: ({ payload }) => (payload as { readonly order: string }).order,
    // Called between the commit and the completion of the job.
    afterCommit: () => void (dies === 'before the completion' && die()),
  },
  async ({ payload }, { tx }) => {
    const { order } = payload as { readonly order: string }
    await tx.query('insert into charges (order_id) values ($1)', [order])
    if (dies === 'in the handler') die()
    return { order }
  },
)
const processor = bullmqProcessor(guard)
const options = { lockDuration: 1_000, stalledInterval: 500, maxStalledCount: 10, concurrency: 4 }
if (redis === undefined) {
  const own = { connectionString: postgres, max: 4, options: '-c search_path=bullmq' }
  const onPostgres = withBackend(createPostgresBackend)
  new onPostgres.Worker(queue, processor, { ...options, connection: new pg.Pool(own) as never })
} else {
  new Worker(queue, processor, {
    ...{ ...options, connection: { url: redis, maxRetriesPerRequest: null } },
  })
}
