import { createGuard, FatalError, type Guard, type GuardEvent, type Health } from '@onceward/core'
import { pgInbox } from '@onceward/postgres/pg'
import { redisLeases } from '@onceward/redis'
import type { TcpProxy } from '@onceward/testing'
import { Redis } from 'ioredis'
import pg from 'pg'
import type { QueueUnderTest } from '../../brokers/queue-under-test.ts'
import { targetOf, through } from '../../support/crash/wire-faults.ts'
import type { Order } from '../../support/workers/protocol.ts'
import type { Address } from './address.ts'
import type { Links } from './links.ts'
import type { Plan } from './plan.ts'
import type { HangBroker, Subject } from './subject.ts'

export const DEADLINE_MS = 4_000
export const POOL_SIZE = 6
/** The settings of the guards; the issue of a hang is decided by limits, and short ones make short cases. */
const TIMES = {
  ...{ concurrency: 4, deadlineMs: DEADLINE_MS, leaseMs: 3_000 },
  retry: { attempts: 10, baseMs: 200, maxMs: 1_000 },
}
/** More than the default, which a busy machine exceeds without a hang. */
const REDIS_MS = 200
const SILENT = { debug: quiet, info: quiet, warn: quiet, error: quiet }

function quiet(): void {
  // The judge reads rows, health and connections.
}

export interface SideParts {
  readonly name: string
  readonly plan: Plan
  readonly databaseUrl: string
  readonly redis: Address
  readonly queue: QueueUnderTest
  readonly broker: HangBroker
  /** The neighbour has none: nothing stands between it and its servers. */
  readonly links: Links | undefined
}

/** A consumer with clients of its own: the subject, whose dependency hangs, or its neighbour. */
export interface Side {
  health(): Health | undefined
  drain(): Promise<void>
  /** Closes the guard; its clients stay open. */
  closeGuard(): Promise<void>
  /** Closes the clients. */
  close(): Promise<void>
}

export async function startSide(parts: SideParts): Promise<Side> {
  const { databaseUrl, links, broker, queue, plan } = parts
  const url = links === undefined ? databaseUrl : through(databaseUrl, links.postgres)
  const pool = new pg.Pool({ connectionString: url, max: POOL_SIZE })
  pool.on('error', quiet)
  const cache = links !== undefined && plan.hasLeases ? connectRedis(links.redis) : undefined
  const guard = createGuard(
    {
      ...{ consumer: parts.name, inbox: pgInbox(pool, { commitSilenceMs: DEADLINE_MS }) },
      ...(cache === undefined ? {} : { leases: redisLeases(cache, { budgetMs: REDIS_MS }) }),
      ...{ ...TIMES, transaction: plan.transaction, logger: SILENT },
      eventKey: ({ payload }) => (payload as Order).id,
    },
    handlerOf(parts),
  )
  const subject = await startSubject({ broker, queue, guard, links, plan })
  return {
    health: () => subject.health(),
    drain: () => subject.drain(),
    closeGuard: () => guard.close(),
    close: async () => {
      await subject.close()
      cache?.disconnect()
      await pool.end()
    },
  }
}

function startSubject({
  broker,
  queue,
  guard,
  links,
  plan,
}: Pick<SideParts, 'broker' | 'queue' | 'links' | 'plan'> & {
  readonly guard: Guard
}): Promise<Subject> {
  const isWrapped = links !== undefined && plan.isWrapped
  return broker.start({ queue, guard, links, isWrapped })
}

function connectRedis({ host, port }: TcpProxy): Redis {
  const cache = new Redis({ host, port })
  cache.on('error', quiet)
  return cache
}

type OrderHandler = (
  event: GuardEvent<unknown>,
  context: { readonly tx: pg.PoolClient },
) => Promise<void>

function handlerOf({ name, plan, links }: SideParts): OrderHandler {
  const takesMs = links === undefined ? 0 : plan.takesMs
  return async ({ payload, attempt }, { tx }) => {
    const { id, deed } = payload as Order
    await tx.query('insert into effects (consumer, id) values ($1, $2)', [name, id])
    if (takesMs > 0) await new Promise((resolve) => setTimeout(resolve, takesMs))
    if (deed === 'fatal-until-mended') throw new FatalError('a dead letter')
    if (deed === 'fail-once' && attempt === 1) throw new Error('once')
  }
}

export const postgresAddress = (databaseUrl: string): Address => targetOf(databaseUrl)
