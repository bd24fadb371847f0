import { StoreUnavailableError } from '@onceward/core'
import { answerWithin, LATE } from '@onceward/core/adapter'
import type { Runtime } from '@onceward/core/ports'
import { endsSession, toStoreError } from '../errors.ts'
import type { Connection, Driver, QueryAnswer } from './driver.ts'
import type { PoolGate } from './pool-slots.ts'
import { repeated } from './repeat.ts'
import { DURABLE_IF_OFF, shortSettings } from './session-settings.ts'
import { inline } from './sql-literal.ts'

/** A short statement without an answer within this time counts as a lost connection. */
const STATEMENT_MS = 15_000
/** The level and the mode have names, because users may have other defaults, under which our statements fail. */
const MODE = 'isolation level read committed, read write'
const SETTINGS = shortSettings(STATEMENT_MS)

/**
 * How a short transaction begins: as the user and the role of the connection, under settings of its own.
 *
 * @param sendsAtOnce - All statements travel in one text, which is one transaction without BEGIN and COMMIT.
 */
export const opening = (sendsAtOnce: boolean): readonly string[] => [
  `${sendsAtOnce ? 'set transaction' : 'begin'} ${MODE}`,
  ...SETTINGS,
]

const DOING = 'running a short statement'
const UNREPLICATED =
  'A record is committed on this server but not replicated as synchronous_commit demands: a failover may lose it.'

/** A connection taken from the pool for short statements. Rejects with the client's own errors. */
export interface StatementConnection {
  query(text: string, values?: readonly unknown[]): Promise<QueryAnswer>
  /** Sends several statements, in one flush if the client can. Resolves with the answer of the last one. */
  send(texts: readonly string[]): Promise<QueryAnswer>
  /** Whether the server reported that a COMMIT of these statements was not replicated as demanded. */
  isUnreplicated(): boolean
  /** Returns the connection to the pool, or closes it if `isBroken`. */
  release(isBroken: boolean): void
}

export interface ShortTransactionParts {
  readonly gate: PoolGate
  readonly runtime: Runtime
  readonly connect: () => Promise<StatementConnection>
  /** Whether `send` outside of a transaction is one transaction, because all statements travel in one text. */
  readonly sendsAtOnce: boolean
}

export type ShortTransactions = Pick<Driver<unknown>, 'query' | 'durable' | 'shortTransaction'>

/** The short transactions of the inbox, on the spare connections of the pool. */
export function createShortTransactions({
  gate,
  runtime,
  connect,
  sendsAtOnce,
}: ShortTransactionParts): ShortTransactions {
  async function withSpare<Result>(work: (connection: Spare) => Promise<Result>): Promise<Result> {
    const release = await gate.spare.acquire({ runtime, limitMs: STATEMENT_MS })
    try {
      const connection = await connect()
      const spare = new Spare(connection, runtime)
      try {
        return await work(spare)
      } finally {
        connection.release(spare.isBroken)
      }
    } finally {
      release()
    }
  }

  const transaction = <Result>(
    settings: readonly string[],
    work: (connection: Connection) => Promise<Result>,
  ): Promise<Result> =>
    repeated(runtime, () =>
      withSpare(async (connection) => {
        const result = await inTransaction(connection, settings, work)
        if (settings.includes(DURABLE_IF_OFF)) connection.refuseUnreplicated()
        return result
      }),
    )
  /** One statement in its own transaction, in one round trip if all statements can travel in one text. */
  const statement =
    (...settings: readonly string[]): Connection['query'] =>
    (text, values) =>
      sendsAtOnce
        ? repeated(runtime, () =>
            withSpare(async (connection) => {
              const texts = [...opening(true), ...settings, inline(text, values)]
              const answer = await connection.send(texts)
              if (settings.includes(DURABLE_IF_OFF)) connection.refuseUnreplicated()
              return answer
            }),
          )
        : transaction(settings, (connection) => connection.query(text, values))
  return {
    query: statement(),
    durable: statement(DURABLE_IF_OFF),
    shortTransaction: (work) => transaction([DURABLE_IF_OFF], work),
  }
}

/** Limits the time of each statement, and makes its errors typed. */
class Spare implements Connection {
  readonly #connection: StatementConnection
  readonly #runtime: Runtime
  isBroken = false
  /** The server has not answered in time. */
  isSilent = false

  constructor(connection: StatementConnection, runtime: Runtime) {
    this.#connection = connection
    this.#runtime = runtime
  }

  query(text: string, values?: readonly unknown[]): Promise<QueryAnswer> {
    return this.#answer(this.#connection.query(text, values))
  }

  send(texts: readonly string[]): Promise<QueryAnswer> {
    return this.#answer(this.#connection.send(texts))
  }

  /**
   * A record after which its delivery is settled for good must not be lost in a failover. The next delivery finds it.
   *
   * @throws {@link StoreUnavailableError}
   */
  refuseUnreplicated(): void {
    if (this.#connection.isUnreplicated()) throw new StoreUnavailableError(UNREPLICATED)
  }

  async #answer(asked: Promise<QueryAnswer>): Promise<QueryAnswer> {
    try {
      const answer = await answerWithin(this.#runtime, asked, STATEMENT_MS)
      if (answer !== LATE) return answer
    } catch (error) {
      this.isBroken ||= endsSession(error)
      throw toStoreError(error, DOING)
    }
    this.isBroken = true
    this.isSilent = true
    throw new StoreUnavailableError(`PostgreSQL did not answer within ${STATEMENT_MS} ms.`)
  }
}

async function inTransaction<Result>(
  connection: Spare,
  settings: readonly string[],
  work: (connection: Connection) => Promise<Result>,
): Promise<Result> {
  await connection.send([...opening(false), ...settings])
  let result: Result
  try {
    result = await work(connection)
  } catch (error) {
    const rolledBack = connection.query('rollback').catch(() => undefined)
    // A silent server is not waited for twice: this is one of two spare connections.
    if (!connection.isSilent) await rolledBack
    throw error
  }
  await connection.query('commit')
  return result
}
