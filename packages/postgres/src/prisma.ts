import { ConfigurationError, type Inbox } from '@onceward/core'
import { refuseUnfitClient } from '@onceward/core/adapter'
import type { QueryAnswer } from './driver/driver.ts'
import { withConnection } from './driver/inbox-connection.ts'
import { createInbox } from './inbox/inbox.ts'
import { openTransaction } from './orm/callback-transaction.ts'
import { type OrmInboxOptions, ormOptions } from './orm/options.ts'
import type { OrmBegin, OrmClient, OrmTransaction } from './orm/orm-connection.ts'
import { ormDriver } from './orm/orm-driver.ts'
import { refusingLists, watchedPrisma } from './orm/prisma-handle.ts'
import { pgDriver } from './pg-driver.ts'
import type { Isolation } from './transaction/claim-sql.ts'

/** Options of {@link prismaInbox}. */
export interface PrismaInboxOptions extends OrmInboxOptions {
  /**
   * Connections of Prisma's own pool, which Prisma does not expose: `max` of its adapter, or `connection_limit` of its
   * address before version 7. With this number, a `concurrency` that does not fit the pool is refused at start.
   */
  readonly poolSize?: number | undefined
}

/** The part of a client of Prisma that {@link prismaInbox} uses. Also a client that `$extends` has made is one. */
export interface PrismaLike {
  readonly $transaction: (...args: never) => unknown
}

/** The transaction client of a client of Prisma: what the callback of its `$transaction` gets. */
export type PrismaTransaction<Client extends PrismaLike> = Parameters<
  Client['$transaction']
>[0] extends (tx: infer Tx) => unknown
  ? Tx
  : never

/**
 * The durable guard of a consumer on Prisma: handlers get the transaction client of the user's own client, extensions
 * included.
 *
 * @param prisma - A client for PostgreSQL. What a handler writes with `prisma` itself is outside of the transaction:
 * repositories must write with the `tx` that they are given.
 * @param options - The connection for the guard's own statements, as `connectionString` or `pool`.
 * @throws {@link ConfigurationError}
 *
 * @example
 * ```ts
 * import { createGuard } from '@onceward/core'
 * import { prismaInbox } from '@onceward/postgres/prisma'
 *
 * const inbox = prismaInbox(prisma, { connectionString: process.env.DATABASE_URL })
 * const billing = createGuard(
 *   { consumer: 'billing', inbox, schema: OrderPlaced },
 *   async ({ payload: { orderId, cents } }, { tx }) => {
 *     await tx.charge.create({ data: { orderId, cents } })
 *   },
 * )
 * ```
 */
export function prismaInbox<Client extends PrismaLike>(
  prisma: Client,
  options: PrismaInboxOptions,
): Inbox<PrismaTransaction<Client>> {
  refuseUnfitClient('prismaInbox', prisma, {
    expected: 'a client of Prisma',
    methods: ['$transaction', '$connect', '$disconnect'],
  })
  const { poolSize, ...others } = options
  if (poolSize !== undefined && (!Number.isInteger(poolSize) || poolSize < 1)) {
    throw new ConfigurationError(
      `Expected \`poolSize\` to be a positive integer, got \`${String(poolSize)}\`.`,
    )
  }
  const { openPool, settings } = ormOptions('prismaInbox', others)
  const client = prismaClient(prisma as unknown as Prisma<object>, settings.commitSilenceMs)
  const inbox = createInbox((registration) => {
    const { pool, close } = openPool(registration)
    const { runtime } = registration
    const own = pgDriver(pool, settings, runtime)
    const driver = ormDriver({
      ...{ client, pool: prisma, poolSize, settings, runtime, own },
    })
    return { ...driver, close } as ReturnType<typeof ormDriver<PrismaTransaction<Client>>>
  }, options)
  return withConnection(inbox, options)
}

/** What is used of Prisma, whose types the user's client has. */
interface Prisma<Tx extends object> {
  $transaction(
    work: (tx: Tx) => Promise<void>,
    options: {
      readonly timeout: number
      readonly maxWait: number
      readonly isolationLevel: string
    },
  ): Promise<void>
}

interface RawClient {
  $executeRawUnsafe(text: string): Promise<unknown>
  $queryRawUnsafe(text: string): Promise<QueryAnswer['rows']>
}

const LEVELS: Readonly<Record<Isolation, string>> = {
  'read committed': 'ReadCommitted',
  'repeatable read': 'RepeatableRead',
  serializable: 'Serializable',
}

/** The guard gives up a connection sooner. */
const MAX_WAIT_MS = 10_000
/** The largest delay of a timer. */
const LONGEST_MS = 2_147_483_647

function prismaClient<Tx extends object>(
  prisma: Prisma<Tx>,
  commitSilenceMs: number,
): OrmClient<Tx> {
  const isPlain = sendsPlainTexts(prisma)
  const begin = async ({ budgetMs, isolation, watch }: OrmBegin): Promise<OrmTransaction<Tx>> => {
    // Prisma's limit is five seconds by default. The guard has limits of its own, and COMMIT is still to come after them.
    const timeout = Math.min(LONGEST_MS, Math.ceil(budgetMs) + commitSilenceMs + MAX_WAIT_MS)
    const limits = { timeout, maxWait: MAX_WAIT_MS, isolationLevel: LEVELS[isolation] }
    const client = refusingLists(prisma, watch)
    const opened = await openTransaction<Tx>((work) => client.$transaction(work, limits))
    const { tx } = opened
    const raw = tx as unknown as RawClient
    const execute = async (text: string): Promise<void> => void (await raw.$executeRawUnsafe(text))
    return {
      tx: watchedPrisma(tx, watch),
      query: (text) => query(raw, text),
      ...(isPlain ? { execute } : {}),
      commit: () => opened.commit(),
      rollback: () => opened.rollback(),
      get lost() {
        return opened.lost
      },
    }
  }
  return { begin, takesSeveral: false, pipelines: false }
}

/** What a client of Prisma keeps of its options. */
interface WithAdapter {
  readonly _engineConfig?: {
    readonly adapter?: {
      readonly adapterName?: string
      readonly options?: { readonly statementNameGenerator?: unknown }
    }
  }
}

/** The adapter over pg sends a text without parameters as it is. Other adapters and the engine prepare every text. */
function sendsPlainTexts(prisma: object): boolean {
  const { adapter } = (prisma as WithAdapter)._engineConfig ?? {}
  return (
    adapter?.adapterName === '@prisma/adapter-pg' &&
    adapter.options?.statementNameGenerator === undefined
  )
}

async function query(tx: RawClient, text: string): Promise<QueryAnswer> {
  const rows = await tx.$queryRawUnsafe(text)
  return { rows, rowCount: rows.length }
}
