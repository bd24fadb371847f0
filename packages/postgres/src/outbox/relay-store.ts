import { randomUUID } from 'node:crypto'
import type { OutgoingMessage } from '@onceward/core'
import { inTransaction, type PoolLike } from '../client.ts'
import { checkSchema } from '../inbox/schema-version.ts'
import { outboxStatus } from '../statements/outbox-status.ts'
import { BUCKETS } from '../transaction/outbox-sql.ts'
import { bucketRows, type RelayStatements, relayStatements } from './relay-sql.ts'

/** A message in the table, as a relay has read it. */
export interface StoredMessage extends OutgoingMessage {
  readonly position: string
  /** Destination and key are the same for messages that keep their order. Undefined: none. */
  readonly lane: string | undefined
  readonly attempt: number
}

/** What waits for one destination. */
export interface DestinationStatus {
  readonly destination: string
  readonly waiting: number
  readonly delayed: number
  readonly refused: number
  readonly dead: number
  /** Whether a relay that runs has the destination. */
  readonly isServed: boolean
  /** How long the oldest message that is neither dead nor delayed has waited, ms. 0: there is none. */
  readonly oldestWaitingMs: number
}

/** What a relay does with its tables. The simulation has tables of its own. */
export type RelayTables = Pick<RelayStore, keyof RelayStore>

/** Who has a bucket of a destination. */
interface LiveLease {
  readonly bucket: number
  readonly relay: unknown
}

/** The buckets of a destination that a relay has and takes, as it reads who has which. */
export function shareOf(live: readonly LiveLease[], relay: string): readonly number[] {
  const relays = new Set([...live.map((lease) => lease.relay), relay])
  const most = Math.ceil(BUCKETS / relays.size)
  const owners = new Map(live.map((lease) => [lease.bucket, lease.relay]))
  const all = Array.from({ length: BUCKETS }, (_, bucket) => bucket)
  const mine = all.filter((bucket) => owners.get(bucket) === relay).slice(0, most)
  const free = all.filter((bucket) => !owners.has(bucket)).slice(0, most - mine.length)
  return [...mine, ...free]
}

/** The tables of one relay. Every method is a short transaction. */
export class RelayStore {
  readonly #pool: PoolLike
  readonly #schema: string
  readonly #sql: RelayStatements
  readonly #destinations: readonly string[]
  readonly #relay = randomUUID()
  /** The rows by which others see this relay and what it has, although it may have no bucket yet. */
  readonly #presence = -1 - Math.floor(Math.random() * 30_000)

  constructor(pool: PoolLike, schema: string, destinations: readonly string[]) {
    this.#pool = pool
    this.#schema = schema
    this.#destinations = destinations
    this.#sql = relayStatements(schema)
  }

  async check(): Promise<void> {
    const text = `select max(version) as version, (array_agg(readable_from order by version desc))[1] as readable_from from ${this.#schema}.migrations`
    await inTransaction(this.#pool, async (client) => {
      await checkSchema(this.#schema, async () => {
        const { rowCount, rows } = await client.query(text)
        return { rows, rowCount: rowCount ?? 0 }
      })
    })
  }

  /**
   * Renews what this relay has and takes its share of the rest: of each destination, among the relays that have it. Answers its
   * buckets by destination.
   */
  lease(leaseMs: number): Promise<ReadonlyMap<string, readonly number[]>> {
    return inTransaction(this.#pool, async (client) => {
      const { giveLeases, lockLeases, readLeases, takeLeases } = this.#sql
      await client.query(lockLeases)
      const { rows } = await client.query(readLeases, [JSON.stringify(this.#destinations)])
      const shares = new Map(
        this.#destinations.map((destination) => {
          const live = rows.filter((row) => row['destination'] === destination)
          const leases = live.map(({ bucket, relay }) => ({ bucket: Number(bucket), relay }))
          return [destination, shareOf(leases, this.#relay)] as const
        }),
      )
      const kept = JSON.stringify(
        [...shares].flatMap(([destination, buckets]) =>
          [...buckets, this.#presence].map((bucket) => ({ destination, bucket })),
        ),
      )
      await client.query(takeLeases, [this.#relay, kept, String(leaseMs)])
      await client.query(giveLeases, [this.#relay, kept])
      return shares
    })
  }

  /** So that another relay need not wait for the end of the leases. */
  async giveBack(): Promise<void> {
    const { giveLeases, lockLeases } = this.#sql
    await inTransaction(this.#pool, async (client) => {
      await client.query(lockLeases)
      await client.query(giveLeases, [this.#relay, '[]'])
    })
  }

  /** What may leave now, in order. */
  read(destination: string, buckets: readonly number[]): Promise<readonly StoredMessage[]> {
    const values = [destination, arrayOf(buckets)]
    const most = String(bucketRows(buckets.length))
    return inTransaction(this.#pool, async (client) => {
      await client.query(this.#sql.hold, values)
      const { rows } = await client.query(this.#sql.read, [...values, most])
      return rows.map((row) => toMessage(destination, row))
    })
  }

  async free(destination: string, buckets: readonly number[]): Promise<void> {
    const values = [destination, arrayOf(buckets)]
    await inTransaction(this.#pool, (client) => client.query(this.#sql.free, values))
  }

  async remove(messages: readonly StoredMessage[]): Promise<void> {
    const sent = JSON.stringify(messages.map(({ id, position }) => ({ id, position })))
    const values = [sent, `{${messages.map(({ position }) => position).join()}}`]
    await inTransaction(this.#pool, (client) => client.query(this.#sql.remove, values))
  }

  /** Answers whether the message is dead now. */
  async fail(
    { id, position }: StoredMessage,
    { attempts, delayMs, error }: { attempts: number; delayMs: number; error: string },
  ): Promise<boolean> {
    const values = [position, String(attempts), String(delayMs), error, id]
    const answer = await inTransaction(this.#pool, (client) => client.query(this.#sql.fail, values))
    return answer.rows[0]?.['state'] === 'x'
  }

  /** The waiting messages by destination, also of those that this relay does not have. */
  async status(): Promise<readonly DestinationStatus[]> {
    const text = outboxStatus(this.#schema)
    const { rows } = await inTransaction(this.#pool, (client) => client.query(text))
    return rows.map((row) => {
      const since = row['oldestWaitingMs']
      return {
        ...{ destination: String(row['destination']), waiting: Number(row['waiting']) },
        ...{ delayed: Number(row['delayed']), refused: Number(row['refused']) },
        ...{ dead: Number(row['dead']), isServed: row['isServed'] === true },
        oldestWaitingMs: since === null ? 0 : Math.max(0, Number(row['nowMs']) - Number(since)),
      }
    })
  }

  /** How many keys of the destination wait because a message was refused, and why one of them does. */
  async waiting(
    destination: string,
    buckets: readonly number[],
  ): Promise<{ readonly keys: number; readonly error: string }> {
    const values = [destination, arrayOf(buckets)]
    const { rows } = await inTransaction(this.#pool, (client) =>
      client.query(this.#sql.waiting, values),
    )
    return { keys: Number(rows[0]?.['keys'] ?? 0), error: String(rows[0]?.['error'] ?? '') }
  }
}

const arrayOf = (numbers: readonly number[]): string => `{${numbers.join()}}`

interface Envelope {
  readonly source: string
  readonly type: string
  readonly headers: Readonly<Record<string, string>>
  readonly isJson: boolean
}

function toMessage(destination: string, row: Readonly<Record<string, unknown>>): StoredMessage {
  const bytesOf = (name: string): Buffer => Buffer.from(String(row[name]), 'hex')
  const envelope = JSON.parse(bytesOf('envelope').toString()) as Envelope
  const { headers, isJson, source, type } = envelope
  const key = row['key'] === null ? undefined : bytesOf('key').toString()
  return {
    ...{
      id: String(row['id']),
      position: String(row['position']),
      attempt: Number(row['attempt']),
    },
    ...{ key, source, type, headers, payload: bytesOf('payload') },
    lane: key === undefined ? undefined : `${destination} ${key}`,
    contentType: isJson ? 'application/json' : 'application/octet-stream',
  }
}
