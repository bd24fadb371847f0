import type { Logger, OncewardError } from '@onceward/core'
import { answerWithin, endsWithin, LATE } from '@onceward/core/adapter'
import type { Savepoint, TransactionStatus } from '@onceward/core/ports'
import type { CompiledQuery, QueryResult, Transaction } from 'kysely'
import type { Connection as Wire } from 'pg'
import type { HeldConnection, OnLate, SendAnswer } from '../driver/held-connection.ts'
import { type SessionSettings, settingsIn } from '../driver/session-settings.ts'
import type { StatementConnection } from '../driver/short-transaction.ts'
import { sqlState } from '../errors.ts'
import { HandlerStatements } from '../transaction/handler-statements.ts'
import { HandleGate } from '../transaction/refusing-handle.ts'
import { type Client, endWire, type Taken, takeClean } from './kysely-checkout.ts'
import { HandleProvider } from './kysely-handle.ts'
import { rawQuery } from './kysely-raw.ts'
import { watchedBuilder } from './kysely-statements.ts'
import { surviveLoss } from './kysely-wire.ts'
import { type WireSession, wireSession } from './pg-wire.ts'

/** Longest wait for a cancel, connecting included. */
const CANCEL_MS = 2_000

type Ask = (query: CompiledQuery) => Promise<QueryResult<unknown>>

/** Sends statements. Resolves with the answer of the last one. */
async function sendAll<DB>(
  client: Client<DB>,
  ask: Ask,
  texts: readonly (readonly string[])[],
): Promise<SendAnswer> {
  const { takesSeveral } = client
  const flushes = takesSeveral === false ? texts.flat().map((text) => [text]) : texts
  let answer: SendAnswer = { rows: [], rowCount: 0, command: undefined }
  let isTaken = takesSeveral !== undefined
  try {
    for (const some of flushes) {
      answer = toAnswer(await ask(rawQuery(some.join('; '))))
      if (isTaken || some.length < 2) continue
      isTaken = true
      client.takesSeveral = true
    }
  } catch (error) {
    // Later, the error is that of a statement, such as a trigger at COMMIT: what ran before must not be sent again.
    if (isTaken || !refusesSeveral(error)) throw error
    // The first text is refused as a whole, so its statements did not run.
    client.takesSeveral = false
    return sendAll(client, ask, texts)
  }
  return answer
}

/** The client writes and reads UTF-8, but a handler or another user of the pool may have changed the encoding. */
async function inUtf8(session: WireSession | undefined, ask: Ask): Promise<void> {
  if (session === undefined || session.encoding === 'UTF8') return
  await ask(rawQuery("set client_encoding = 'UTF8'"))
  session.encoding = 'UTF8'
}

/** The last statement gets a text of its own, because Kysely returns rows only then. */
function withOwnLast(texts: readonly string[]): readonly (readonly string[])[] {
  return texts.length > 1 ? [texts.slice(0, -1), texts.slice(-1)] : [texts]
}

function toAnswer({ rows, numAffectedRows }: QueryResult<unknown>): SendAnswer {
  const [first] = rows as readonly Readonly<Record<string, unknown>>[]
  const command = first?.['command']
  return {
    rows: rows as SendAnswer['rows'],
    rowCount: numAffectedRows === undefined ? rows.length : Number(numAffectedRows),
    command: command === 'ROLLBACK' || command === 'COMMIT' ? command : undefined,
  }
}

/** A spare connection for short statements. */
export async function connectForStatements<DB>(client: Client<DB>): Promise<StatementConnection> {
  const { connection, leave, wire } = await takeClean(client)
  const undo = wire === undefined ? undefined : surviveLoss(wire)
  const session = wire === undefined ? undefined : wireSession(wire)
  if (session !== undefined) session.isUnreplicated = false
  // If the connection cannot be closed, it is kept until the running statement ends.
  let running: Promise<unknown> = Promise.resolve()
  const ask: Ask = (query) => {
    const asked = connection.executeQuery(query)
    running = asked.catch(() => undefined)
    return asked
  }
  return {
    isUnreplicated: () => session?.isUnreplicated ?? false,
    query: async (text, values) => toAnswer(await ask(rawQuery(text, [...(values ?? [])]))),
    send: async (texts) => {
      await inUtf8(session, ask)
      return sendAll(client, ask, withOwnLast(texts))
    },
    release: (isBroken) => {
      const giveBack = (): void => {
        void running.then(() => {
          undo?.()
          leave()
        })
      }
      if (isBroken && wire !== undefined) endWire(wire, giveBack)
      else giveBack()
    },
  }
}

/** A connection of Kysely, for one transaction. */
export class KyselyHeldConnection<DB> implements HeldConnection<Transaction<DB>> {
  readonly tx: Transaction<DB>
  /** Process id of the server, from the claim. */
  pid: number | undefined
  readonly #client: Client<DB>
  readonly #taken: Taken
  readonly #releaseSlot: () => void
  readonly #statements = new HandlerStatements()
  readonly #gate = new HandleGate()
  readonly #provider: HandleProvider
  readonly #wire: Wire | undefined
  readonly #session: WireSession | undefined
  /** A cancel is on its way still: the next statement of this connection would be its victim. */
  #mayBeCancelled = false
  readonly #undo: (() => void) | undefined
  #boundaries = 0

  static async of<DB>(
    client: Client<DB>,
    releaseSlot: () => void,
  ): Promise<KyselyHeldConnection<DB>> {
    const taken = await takeClean(client)
    return new KyselyHeldConnection({ client, taken, releaseSlot, wire: taken.wire })
  }

  constructor(parts: {
    readonly client: Client<DB>
    readonly taken: Taken
    readonly releaseSlot: () => void
    readonly wire: Wire | undefined
  }) {
    this.#client = parts.client
    this.#taken = parts.taken
    this.#releaseSlot = parts.releaseSlot
    this.#wire = parts.wire
    this.#provider = new HandleProvider(parts.taken.connection, this.#gate, this.#statements)
    this.tx = watchedBuilder(
      parts.client.toTransaction(parts.client.db, this.#provider),
      this.#statements,
    )
    if (parts.wire === undefined) return
    this.#session = wireSession(parts.wire)
    this.#undo = surviveLoss(parts.wire)
  }

  /** The claim is answered. A BEGIN or COMMIT from now on comes from the handler. */
  opened(row: Readonly<Record<string, unknown>>): SessionSettings {
    this.pid = Number(row['pid'])
    this.#boundaries = this.#session?.boundaries ?? 0
    if (this.#session !== undefined) this.#session.encoding = String(row['client_encoding'])
    return settingsIn(row)
  }

  isUtf8(): boolean {
    return this.#session === undefined || this.#session.encoding === 'UTF8'
  }

  hasChangedSettings(): boolean {
    return this.#gate.hasChangedSettings
  }

  status(): TransactionStatus {
    return this.#session?.status(this.#boundaries) ?? this.#provider.status
  }

  endCode(): string | undefined {
    return this.#session?.endCode
  }

  logTo(logger: Logger): void {
    this.#statements.logger = logger
  }

  ended(thrown: unknown): OncewardError | undefined {
    return this.#statements.ended(thrown) ?? (thrown === undefined ? this.#hidden() : undefined)
  }

  mistake(): OncewardError | undefined {
    return this.#statements.mistake(undefined) ?? this.#hidden()
  }

  /** A library may hide from the handler that its statement was refused. */
  #hidden(): OncewardError | undefined {
    return this.#client.isLibrary === true ? this.#provider.refused : undefined
  }

  savepoint(): Savepoint | undefined {
    return this.#gate.savepoints.current
  }

  hasSent(): boolean {
    return this.#gate.hasSent
  }

  close(refusal: () => OncewardError, late?: OnLate): void {
    this.#gate.close(refusal, late)
    if (late !== undefined) this.#statements.logger = undefined
  }

  revoke(error: OncewardError): void {
    this.#gate.revoke(error)
  }

  send(texts: readonly string[], limitMs: number): Promise<SendAnswer | typeof LATE> {
    return answerWithin(this.#client.runtime, this.#send(texts), limitMs)
  }

  async #send(texts: readonly string[]): Promise<SendAnswer> {
    if (this.#session !== undefined) this.#session.isUnreplicated = false
    const ask: Ask = (query) => this.#provider.send(query)
    // COMMIT has no rows. If only its answer shows the outcome of the transaction, it is sent alone.
    const isOneFlush = texts.at(-1) === 'commit' && this.#session !== undefined
    return sendAll(this.#client, ask, isOneFlush ? [texts] : withOwnLast(texts))
  }

  commands(): number | undefined {
    return this.#session?.commands
  }

  isBusy(): boolean {
    return this.#provider.isBusy
  }

  idle(): Promise<void> {
    return this.#provider.idle()
  }

  async cancel(): Promise<void> {
    const { db, runtime } = this.#client
    const { supportsMultipleConnections } = db.getExecutor().adapter
    if (this.pid === undefined || supportsMultipleConnections === false) return
    const cancel = this.#client.cancel ?? ((pid: number) => cancelBackend(this.#client, pid))
    const cancelling = cancel(this.pid)
    this.#mayBeCancelled = !(await endsWithin(runtime, cancelling, CANCEL_MS))
  }

  isUnreplicated(): boolean {
    return this.#session?.isUnreplicated ?? false
  }

  release(): void {
    if (this.#mayBeCancelled) this.destroy()
    else this.#leave()
  }

  /** If the connection of pg is not known, it stays out of Kysely's pool until it has been rolled back. */
  destroy(): void {
    const wire = this.#wire
    if (wire === undefined) {
      void this.#cleanUp().finally(() => this.#leave())
    } else {
      endWire(wire, () => this.#leave())
    }
  }

  #leave(): void {
    this.#undo?.()
    this.#taken.leave()
    this.#releaseSlot()
  }

  async #cleanUp(): Promise<void> {
    await this.idle()
    await this.#send(['rollback']).catch(() => undefined)
  }
}

async function cancelBackend<DB>(client: Client<DB>, pid: number): Promise<void> {
  const connection = await connectForStatements(client)
  const text = `select pg_catalog.pg_cancel_backend(${pid})`
  // Also one that is refused or not answered gives its connection back.
  let isBroken = true
  try {
    isBroken = (await answerWithin(client.runtime, connection.query(text), CANCEL_MS)) === LATE
  } finally {
    connection.release(isBroken)
  }
}

/** Whether the client accepts only one statement in a text. `syntax_error`: cannot insert multiple commands … */
function refusesSeveral(error: unknown): boolean {
  return sqlState(error) === '42601'
}
