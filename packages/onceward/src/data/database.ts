import { answerWithin, LATE, messageOf } from '@onceward/core/adapter'
import { systemRuntime } from '@onceward/core/ports'
import { quotedSchema } from '@onceward/postgres/operator'
import pg from 'pg'
import { Failure, toFailure, usage } from '../failure.ts'

/** Runs one statement whose rows are read as JSON: instants are milliseconds, bytes are base64. */
export type Query = <Row>(sql: string, values?: readonly unknown[]) => Promise<readonly Row[]>

/** The database of the guards, as operators read it. Changes go through the functions of `@onceward/postgres`. */
export interface Database extends AsyncDisposable {
  readonly pool: pg.Pool
  /** Name of the schema. */
  readonly schema: string
  /** The schema, quoted for SQL. */
  readonly quoted: string
  /** Host, port, database and user, without the password. */
  readonly place: string
  /** All statements of `work` see the same moment, and none may write. */
  read<Result>(work: (query: Query) => Promise<Result>): Promise<Result>
}

/** A statement that takes longer is cancelled. */
const STATEMENT_MS = 30_000
const SILENT_MS = STATEMENT_MS + 5_000
const CONNECT_MS = 10_000
/** A page that is open for hours, and a replay beside it. */
const CONNECTIONS = 4

const BEGIN = `begin isolation level repeatable read read only; set local statement_timeout = ${STATEMENT_MS}; set local lock_timeout = ${STATEMENT_MS}; set local timezone = 'UTC'; set local extra_float_digits = 1`

/** @throws {@link Failure} for a text that is not a connection string. The text is not repeated, because it may contain a password. */
export function openDatabase(url: string | undefined, schema: string): Database {
  const { place } = parsed(url)
  const quoted = quotedOrRefused(schema)
  const pool = new pg.Pool({
    connectionString: url,
    max: CONNECTIONS,
    connectionTimeoutMillis: CONNECT_MS,
    application_name: 'onceward',
    // Ends a command whose other promises are still open, instead of keeping the process.
    allowExitOnIdle: true,
  })
  pool.on('error', () => undefined)
  return {
    ...{ pool, schema, quoted, place },
    read: (work) => readOnly(pool, place, work),
    [Symbol.asyncDispose]: () => pool.end(),
  }
}

function quotedOrRefused(schema: string): string {
  try {
    return quotedSchema(schema)
  } catch (error) {
    throw usage(messageOf(error))
  }
}

async function readOnly<Result>(
  pool: pg.Pool,
  place: string,
  work: (query: Query) => Promise<Result>,
): Promise<Result> {
  const client = await pool.connect().catch((error: unknown) => {
    const { message } = toFailure(error, 'connecting')
    throw new Failure(`No connection to PostgreSQL at ${place}: ${message}`, 3, { cause: error })
  })
  let isBroken = true
  const ignore = (): void => undefined
  client.on('error', ignore)
  try {
    const ask: Ask = (text, values) => inTime(client.query(text, values && [...values]), place)
    await ask(BEGIN)
    const result = await work(queryOn(ask))
    await ask('commit')
    isBroken = false
    return result
  } catch (error) {
    throw toFailure(error, 'reading the tables')
  } finally {
    client.off('error', ignore)
    client.release(isBroken)
  }
}

type Ask = (text: string, values?: readonly unknown[]) => Promise<pg.QueryResult>

/** A server that is gone without a word does not even cancel a statement. */
async function inTime<Answer>(asked: Promise<Answer>, place: string): Promise<Answer> {
  const answer = await answerWithin(systemRuntime, asked, SILENT_MS)
  if (answer !== LATE) return answer
  throw new Failure(`PostgreSQL at ${place} has not answered for ${SILENT_MS / 1_000} seconds.`)
}

function queryOn(ask: Ask): Query {
  return async <Row>(sql: string, values: readonly unknown[] = []) => {
    const text = `select row_to_json(onceward_row)::text as answer from (${sql}) as onceward_row`
    const { rows } = await ask(text, values)
    return rows.map((row: { readonly answer: string }) => JSON.parse(row.answer) as Row)
  }
}

const EXAMPLE = 'postgres://user:password@host:5432/database'

function parsed(url: string | undefined): { readonly place: string } {
  if (url === undefined || url === '') {
    throw usage(`Which database? Give --url ${EXAMPLE}, or set DATABASE_URL.`)
  }
  const address = /^postgres(?:ql)?:\/\//.test(url) && URL.canParse(url) ? new URL(url) : undefined
  // Behind a password with a slash, such as 7/secret, the rest would be the name of the database, which is shown.
  if (address === undefined || address.pathname.includes('@')) {
    throw usage(
      `Expected --url or DATABASE_URL to be a connection string such as ${EXAMPLE}. In names and passwords, write %2F for / and %40 for @.`,
    )
  }
  const { host, hostname, pathname, username, searchParams } = address
  const server = searchParams.get('host') ?? (hostname === '' ? 'localhost' : host)
  const user = username === '' ? '' : `, user ${decoded(username)}`
  return { place: `${server}, database ${decoded(pathname.slice(1)) || '(default)'}${user}` }
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text)
  } catch {
    return text
  }
}

/** SQL for an instant as milliseconds since the epoch. */
export const ms = (column: string): string => `floor(extract(epoch from ${column}) * 1000)::float8`
