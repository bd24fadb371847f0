import { randomUUID } from 'node:crypto'
import { ConfigurationError, OutboxError, type OutboxMessage, type Seal } from '@onceward/core'
import { hasMethod, type KnownNames, refuseUnknownNames } from '@onceward/core/adapter'
import { Sealer, sealMessage, systemRuntime, toCollected } from '@onceward/core/ports'
import { missingTables } from '../inbox/schema-version.ts'
import { quotedSchema } from '../statements/schema-name.ts'
import { refuseUnfitSeal } from '../statements/seal-option.ts'
import { insertText, lockText } from '../transaction/outbox-sql.ts'

/** Options of {@link sendWith}. */
export interface SendOptions {
  /** Schema of the tables. @defaultValue `onceward` */
  readonly schema?: string | undefined
  /** The CloudEvents source of the messages. @defaultValue `onceward` */
  readonly source?: string | undefined
  /** Encrypts payload and headers, as the option `seal` of a guard. Its `consumer` is the source. @defaultValue none */
  readonly seal?: Seal | undefined
}

const NAMES: KnownNames<SendOptions> = { schema: true, source: true, seal: true }

const NO_TRANSACTION =
  'sendWith got a handle that is no open transaction, so nothing was sent: begin a transaction, and give the handle that its writes go through.'

/**
 * Sends messages with the commit of a transaction of your own, outside of a guard: in a cron job, on an admin page.
 * Resolves once they are written; they leave after the commit. Messages without an `id` get a random one. Writers of one
 * key wait for each other from here to the commit, so call it last.
 *
 * @param tx - A client of pg in a transaction, or the transaction of PGlite, Kysely, Knex, postgres.js or another library.
 * @throws {@link OutboxError} if a message cannot be sent as it is, or the handle is no open transaction. Then nothing was
 * sent.
 * @throws {@link ConfigurationError} if the tables are older than the outbox, or missing.
 *
 * @example
 * ```ts
 * import { sendWith } from '@onceward/postgres/outbox'
 *
 * const client = await pool.connect()
 * await client.query('begin')
 * await client.query("update orders set state = 'closed' where id = 'o-1'")
 * await sendWith(client, [{ to: 'orders', key: 'o-1', payload: { orderId: 'o-1', state: 'closed' } }])
 * await client.query('commit')
 * client.release()
 * ```
 */
export async function sendWith(
  tx: object,
  messages: readonly OutboxMessage[],
  options: SendOptions = {},
): Promise<void> {
  refuseUnknownNames('sendWith', options, NAMES)
  const { schema = 'onceward', source = 'onceward' } = options
  if (!Array.isArray(messages)) throw new OutboxError('sendWith expects an array of messages.')
  const sender = { source, newId: () => randomUUID() as string }
  refuseUnfitSeal('sendWith', options.seal)
  const plain = messages.map((message: OutboxMessage) => toCollected(message, sender))
  const sealer = new Sealer(options.seal, { consumer: source, runtime: systemRuntime })
  const collected =
    options.seal === undefined
      ? plain
      : await Promise.all(plain.map((message) => sealMessage(sealer, message)))
  const query = queryOf(tx)
  if (collected.length === 0) return
  const quoted = quotedSchema(schema)
  // A setting for the transaction: without one it ends with its statement, and on another connection it never was.
  const token = randomUUID()
  await query(`select pg_catalog.set_config('onceward.sends', '${token}', true)`)
  const locks = lockText(quoted, collected)
  if (locks !== undefined) await query(locks)
  const isOpen = `pg_catalog.current_setting('onceward.sends', true) operator(pg_catalog.=) '${token}'`
  const insert = `${insertText(quoted, collected, isOpen)} returning 1 as sent`
  const rows = await query(insert).catch((error: unknown) => {
    throw missingTables(quoted, error)
  })
  if (rows.length !== collected.length) throw new OutboxError(NO_TRANSACTION)
}

type Query = (text: string) => Promise<readonly unknown[]>

/** How each library runs a text on its handle of a transaction. The first that a handle has is its own. */
const METHODS: readonly (readonly [method: string, toQuery: (text: string) => unknown])[] = [
  // Kysely, which has no method for text.
  ['executeQuery', (text) => compiled(text)],
  // postgres.js.
  ['unsafe', (text) => text],
  // Prisma.
  ['$queryRawUnsafe', (text) => text],
  // pg, PGlite, TypeORM.
  ['query', (text) => text],
  // Knex.
  ['raw', (text) => text],
  // MikroORM, Drizzle.
  ['execute', (text) => text],
]

/** @throws {@link ConfigurationError} */
function queryOf(tx: object): Query {
  const found = METHODS.find(([method]) => hasMethod(tx, method))
  if (found === undefined) {
    throw new ConfigurationError(
      `Expected sendWith to get the transaction of a PostgreSQL client, got ${tx === null ? 'null' : typeof tx}. Give the handle that the writes of the transaction go through.`,
    )
  }
  const [method, toQuery] = found
  return async (text) => {
    const run = Reflect.get(tx, method) as (query: unknown) => unknown
    const answer: unknown = await Reflect.apply(run, tx, [toQuery(text)])
    const rows: unknown = Array.isArray(answer) ? answer : Reflect.get(Object(answer), 'rows')
    return Array.isArray(rows) ? rows : []
  }
}

const compiled = (sql: string): object => ({
  sql,
  parameters: [],
  query: { kind: 'RawNode', sqlFragments: [sql], parameters: [] },
  queryId: { queryId: randomUUID() },
})
