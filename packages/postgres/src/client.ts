import { StoreUnavailableError } from '@onceward/core'
import { answerWithin, type ClientRule, LATE, refuseUnfitClient } from '@onceward/core/adapter'
import { systemRuntime } from '@onceward/core/ports'
import { askStatus, isInTransaction, lentWithin } from './clients/pg-checkout.ts'
import { surviveLoss, survivePoolLosses } from './clients/pg-events.ts'
import { MOST_CONNECTIONS, repeated } from './driver/repeat.ts'
import { DURABLE_IF_OFF, shortSettings } from './driver/session-settings.ts'
import { diagnose, endsSession, toStoreError } from './errors.ts'

/** The part of pg's `Pool` that {@link migrate} and {@link deadLetters} call. */
export interface PoolLike {
  connect(): Promise<PoolClientLike>
}

/** The part of pg's `Pool` that {@link postgresLeases} takes it by. It works with a `Pool` of pg only. */
export interface SizedPoolLike extends PoolLike {
  readonly options: { readonly max: number }
}

/** The part of pg's `PoolClient` that {@link migrate} and {@link deadLetters} call. */
export interface PoolClientLike {
  query(text: string, values?: readonly unknown[]): Promise<ClientAnswer>
  release(error?: Error | boolean): void
}

/** A pool of pg. One of its clients has the same methods, but not its options. */
export const POOL: ClientRule = {
  expected: 'a pool of pg',
  methods: ['connect', 'query'],
  field: 'options',
}

/**
 * Otherwise it would look like a database that is down.
 *
 * @param place - The function that got the value.
 * @throws {@link ConfigurationError} that says what to write, and never shows the value.
 */
export function refuseNoPool(place: string, value: unknown): void {
  const advice = `Write \`${place}(new Pool({ connectionString }))\`.`
  refuseUnfitClient(place, value, { expected: POOL.expected, methods: ['connect'], advice })
}

export interface ClientAnswer {
  readonly rows: readonly Readonly<Record<string, unknown>>[]
  readonly rowCount: number | null
}

/** A statement of an operator that takes longer is cancelled: a page of large dead letters takes seconds. */
const STATEMENT_MS = 60_000
/** No answer within this time: the network is silent, because the server would have cancelled the statement. */
const ANSWER_MS = STATEMENT_MS + 10_000
const beginning = (isolation: NonNullable<Limits['isolation']>): string =>
  [
    `begin isolation level ${isolation} read write`,
    ...shortSettings(STATEMENT_MS),
    DURABLE_IF_OFF,
  ].join('; ')

/**
 * BEGIN, `work`, COMMIT on one connection, durable, and in READ COMMITTED if nothing else is asked for, under settings of
 * its own, whatever the defaults of the role and the database are. `work` runs again when the transaction lost against a concurrent one.
 *
 * @throws {@link StoreUnavailableError} when the server cannot be reached, or ended the connection.
 */
export function inTransaction<Result>(
  pool: PoolLike,
  work: (client: PoolClientLike) => Promise<Result>,
  limits: Limits = {},
): Promise<Result> {
  survivePoolLosses(pool)
  const all = { answerMs: ANSWER_MS, ...limits }
  return repeated(systemRuntime, () => onceInTransaction(pool, work, all))
}

/** Runs a short statement outside of a transaction. */
export async function askOnce(pool: PoolLike, text: string): Promise<ClientAnswer> {
  survivePoolLosses(pool)
  const client = await pool.connect()
  const undo = surviveLoss(client)
  let hasFailed = true
  try {
    const answer = await client.query(text)
    hasFailed = false
    return answer
  } finally {
    undo()
    client.release(hasFailed)
  }
}

/** How a transaction runs. */
export interface Limits {
  /** The longest wait for the pool and for each statement. Undefined: they take as long as they take. */
  readonly answerMs?: number | undefined
  /** Default: read committed. */
  readonly isolation?: 'read committed' | 'repeatable read'
}

async function onceInTransaction<Result>(
  pool: PoolLike,
  work: (client: PoolClientLike) => Promise<Result>,
  { answerMs, isolation = 'read committed' }: Limits,
): Promise<Result> {
  const lent = await connect(pool)
  const undo = surviveLoss(lent)
  let isSilent = false
  const onSilence = (): void => {
    isSilent = true
  }
  const client = answerMs === undefined ? lent : bounded(lent, answerMs, onSilence)
  let isBroken = false
  try {
    await client.query(beginning(isolation))
    const result = await work(client)
    await client.query('commit')
    return result
  } catch (error) {
    isBroken = isSilent || !(await rolledBack(client)) || endsSession(error)
    throw diagnose(error) === 'other' ? error : toStoreError(error, 'running a transaction')
  } finally {
    undo()
    lent.release(isBroken)
  }
}

const rolledBack = (client: PoolClientLike): Promise<boolean> =>
  client.query('rollback').then(
    () => true,
    () => false,
  )

/** A client whose statements are given up where the server does not answer. */
function bounded(client: PoolClientLike, answerMs: number, onSilence: () => void): PoolClientLike {
  return {
    query: async (text, values) => {
      const answer = await answerWithin(systemRuntime, client.query(text, values), answerMs)
      if (answer !== LATE) return answer
      onSilence()
      throw silent(answerMs)
    },
    release: (error) => client.release(error),
  }
}

const silent = (ms: number): StoreUnavailableError =>
  new StoreUnavailableError(`PostgreSQL did not answer within ${ms} ms: check the network.`)

/** Other code may return a connection inside of a transaction, and a COMMIT would commit half of its work. */
async function connect(pool: PoolLike): Promise<PoolClientLike> {
  try {
    for (let closed = 0; closed < MOST_CONNECTIONS; closed += 1) {
      const client = await lentWithin(pool.connect(), systemRuntime, ANSWER_MS)
      if (client === LATE) throw silent(ANSWER_MS)
      if (isInTransaction(client) === undefined)
        await answerWithin(systemRuntime, askStatus(client), ANSWER_MS)
      if (isInTransaction(client) === false) return client
      client.release(true)
    }
    throw new StoreUnavailableError(
      'The connections of the pool are inside of a transaction: end it in the code that begins it.',
    )
  } catch (error) {
    throw toStoreError(error, 'connecting')
  }
}
