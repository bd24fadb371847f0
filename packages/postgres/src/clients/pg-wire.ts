import type { TransactionStatus } from '@onceward/core/ports'
import type { Connection } from 'pg'

/** What onceward learns about one connection of pg from its protocol messages. */
export interface WireSession {
  /** Number of statements that began or ended a transaction. */
  readonly boundaries: number
  /** Number of statements that completed. */
  readonly commands: number
  /** The tag of the last COMMIT that completed: `ROLLBACK` if it rolled back. */
  endTag: 'COMMIT' | 'ROLLBACK' | undefined
  /** `client_encoding` of the session, as far as it is known. */
  encoding: string | undefined
  /** Whether the last answer came from inside of a transaction. Undefined before the first one that was listened to. */
  readonly isInTransaction: boolean | undefined
  /** SQLSTATE of the error with which the server ended the connection. */
  readonly endCode: string | undefined
  /** The connection has ended, and its client knows. */
  readonly hasEnded: boolean
  /** The server reported that the last COMMIT was not replicated as demanded. The reader clears it. */
  isUnreplicated: boolean
  /**
   * The status of the transaction.
   *
   * @param boundaries - Their number when the transaction was open.
   */
  status(boundaries: number): TransactionStatus
}

const sessions = new WeakMap<Connection, WireSession>()
const BOUNDARY = /^(?:BEGIN|START TRANSACTION|COMMIT)/

/** Listens for messages that pg does not keep. The listeners live as long as the connection. */
export function wireSession(connection: Connection): WireSession {
  const known = sessions.get(connection)
  if (known !== undefined) return known
  const session = watch(connection)
  sessions.set(connection, session)
  return session
}

function watch(connection: Connection): WireSession {
  let boundaries = 0
  let commands = 0
  let transaction: string | undefined
  // The server answered an error. Its ReadyForQuery may come in a later packet.
  let hasFailed = false
  let isEnding = false
  let endCode: string | undefined
  let hasEnded = false
  connection.on('commandComplete', ({ text }: { readonly text: string }) => {
    commands += 1
    if (text === 'COMMIT' || text === 'ROLLBACK') session.endTag = text
    if (BOUNDARY.test(text)) boundaries += 1
  })
  connection.on('parameterStatus', ({ parameterName, parameterValue }: ParameterStatus) => {
    if (parameterName === 'client_encoding') session.encoding = parameterValue
  })
  // First, because the listener of pg throws if its client has no other listener: over Kysely, between two statements.
  connection.prependListener('errorMessage', (error: ErrorMessage) => {
    if (endsConnection(error)) {
      isEnding = true
      endCode = error.code
    }
    hasFailed = true
  })
  connection.on('readyForQuery', ({ status }: { readonly status: string }) => {
    // A server that ends the connection sends no ReadyForQuery: the error was raised with a code of a shutdown.
    isEnding = false
    endCode = undefined
    hasFailed = false
    transaction = status
  })
  const onEnd = (): void => {
    hasEnded = true
  }
  // First for the same reason.
  connection.prependListener('end', onEnd)
  connection.prependListener('error', onEnd)
  const session: WireSession = {
    isUnreplicated: false,
    endTag: undefined,
    encoding: undefined,
    get commands() {
      return commands
    },
    get boundaries() {
      return boundaries
    },
    get isInTransaction() {
      return transaction === undefined ? undefined : transaction !== 'I'
    },
    get endCode() {
      return endCode
    },
    get hasEnded() {
      return hasEnded
    },
    status: (since: number): TransactionStatus => {
      if (isEnding || hasEnded) return 'broken'
      if (hasFailed || transaction === 'E') return 'failed'
      return transaction === 'T' && boundaries === since ? 'open' : 'ended'
    },
  }
  connection.on('notice', (notice: { readonly code?: string; readonly routine?: string }) => {
    // Triggers too may raise 01000 at COMMIT; only this one comes from waiting for a standby.
    const { code, routine } = notice
    if (code === '01000' && routine === 'SyncRepWaitForLSN') session.isUnreplicated = true
  })
  return session
}

interface ParameterStatus {
  readonly parameterName: string
  readonly parameterValue: string
}

interface ErrorMessage {
  readonly severity?: string | undefined
  readonly code?: string | undefined
}

/** Codes of severity FATAL. The severity itself comes in the language of the server. */
const FATAL = new Set(['25P03', '25P04', '57P01', '57P02', '57P04', '57P05'])

/**
 * The end of the connection may follow in a later packet. Until then an idle transaction that a shutdown ended would
 * look as if a statement of the handler had failed.
 */
function endsConnection({ severity, code = '' }: ErrorMessage): boolean {
  if (severity === 'ERROR') return false
  return severity === 'FATAL' || severity === 'PANIC' || FATAL.has(code)
}
