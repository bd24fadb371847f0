import type { OncewardError } from '@onceward/core'
import type { TransactionStatus } from '@onceward/core/ports'
import type { CompiledQuery, ConnectionProvider, DatabaseConnection, QueryResult } from 'kysely'
import { isConnectionLoss, sqlState } from '../errors.ts'
import type { HandlerStatements, Statement } from '../transaction/handler-statements.ts'
import { type HandleGate, refusedControls } from '../transaction/refusing-handle.ts'

/** The status of a transaction as far as its statements show it, if the connection of pg is not known. */
export type SeenStatus = Exclude<TransactionStatus, 'ended'>

/**
 * The one connection of a transaction, for everything that is built on its handle. Runs one statement after the other,
 * and none after the gate is closed.
 */
export class HandleProvider implements ConnectionProvider {
  readonly #connection: DatabaseConnection
  readonly #guarded: DatabaseConnection
  readonly #gate: HandleGate
  readonly #statements: HandlerStatements
  /** What runs now, if the handler sent it. */
  #current: Statement | undefined
  #tail: Promise<unknown> = Promise.resolve()
  #pending = 0
  #status: SeenStatus = 'open'
  /** Why a text that would end the transaction was not sent. */
  refused: OncewardError | undefined

  constructor(connection: DatabaseConnection, gate: HandleGate, statements: HandlerStatements) {
    this.#connection = connection
    this.#gate = gate
    this.#statements = statements
    this.#guarded = this.#guard()
  }

  get status(): SeenStatus {
    return this.#status
  }

  get isBusy(): boolean {
    return this.#pending > 0
  }

  async idle(): Promise<void> {
    while (this.#pending > 0) await this.#tail
  }

  provideConnection<T>(consumer: (connection: DatabaseConnection) => Promise<T>): Promise<T> {
    const refusal = this.#gate.refusal()
    if (refusal !== undefined) {
      return this.#statements.innerRefused({ error: refusal, gate: this.#gate })
    }
    return this.#statements.inner((statement) =>
      this.#enqueue(() => {
        this.#current = statement
        this.#check('')
        return consumer(this.#guarded)
      }),
    )
  }

  /** Sends a statement of onceward. */
  send(query: CompiledQuery): Promise<QueryResult<unknown>> {
    return this.#enqueue(() => this.#see(() => this.#connection.executeQuery(query)))
  }

  #enqueue<T>(work: () => Promise<T>): Promise<T> {
    this.#pending += 1
    const run = this.#tail.then(work).finally(() => {
      this.#pending -= 1
    })
    this.#tail = run.catch(() => undefined)
    return run
  }

  /** Checks a queued statement before it starts. */
  #check(text: string): void {
    if (this.#current !== undefined && text !== '') this.#current.text = text
    const refused = refusedControls(text)
    this.refused ??= refused
    const refusal = this.#gate.revoked ?? refused
    if (refusal !== undefined) throw refusal
  }

  async #see<T>(work: () => Promise<T>): Promise<T> {
    try {
      const result = await work()
      if (this.#status === 'failed') this.#status = 'open'
      return result
    } catch (error) {
      // A statement may raise any code and any text, also those of a lost connection: ROLLBACK tells.
      if (sqlState(error) !== undefined) this.#status = 'failed'
      else if (isConnectionLoss(error)) this.#status = 'broken'
      throw error
    }
  }

  #guard(): DatabaseConnection {
    const connection = this.#connection
    const gate = this.#gate
    const check = this.#check.bind(this)
    const see = this.#see.bind(this)
    return {
      executeQuery: async (query, options) => {
        check(query.sql)
        gate.sent(query.sql)
        return see(() => connection.executeQuery(query, options))
      },
      streamQuery: async function* (query, chunkSize, options) {
        check(query.sql)
        gate.sent(query.sql)
        const stream = connection.streamQuery(query, chunkSize, options)
        try {
          for (;;) {
            check('')
            const { done, value } = await see(() => stream.next())
            if (done === true) return
            yield value
          }
        } finally {
          await stream.return?.()
        }
      },
      // For queries with an AbortSignal. A client may lack these methods.
      ...bound(connection, 'cancelQuery'),
      ...bound(connection, 'collectSessionInfo'),
      ...bound(connection, 'killSession'),
    } as DatabaseConnection
  }
}

function bound<Name extends keyof DatabaseConnection>(
  connection: DatabaseConnection,
  name: Name,
): Partial<DatabaseConnection> {
  const method = connection[name]
  return method === undefined ? {} : { [name]: method.bind(connection) }
}
