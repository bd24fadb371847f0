import { randomUUID } from 'node:crypto'
import type { OutgoingMessage } from '@onceward/core'
import { givenContentType } from '@onceward/core/adapter'
import { inTransaction, type PoolClientLike, type PoolLike } from '../client.ts'
import { checkSchema } from '../inbox/schema-version.ts'
import { type OutboxEnvelope, readOutboxEnvelope } from '../statements/outbox-envelope.ts'
import { outboxStatus } from '../statements/outbox-status.ts'
import { BUCKETS } from '../transaction/outbox-sql.ts'
import { Plan, type Planned } from './plan.ts'
import {
  dueRows,
  FREE_ROWS,
  LOOK_ROWS,
  PLAN_BUCKET_ROWS,
  PLAN_ROWS,
  type RelayStatements,
  relayStatements,
} from './relay-sql.ts'

/** A message in the table, as a relay has read it. */
export interface StoredMessage extends OutgoingMessage {
  readonly position: string
  /** Destination and key are the same for messages that keep their order. Undefined: none. */
  readonly lane: string | undefined
  readonly attempt: number
  /** Payload and headers are sealed: it must not leave like that. */
  readonly sealed?: { readonly isJson: boolean } | undefined
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

/** A message that its destination has refused. */
export interface MessageFailure {
  readonly message: StoredMessage
  /** Until the next attempt. */
  readonly delayMs: number
  readonly error: string
  /** The message was not tried, because it cannot be opened: it waits without an attempt, and is never dead for that. */
  readonly isHeld?: true | undefined
}

/** When a message that is refused is dead. */
export interface FailureLimits {
  readonly attempts: number
  /** Longest time since the first one. */
  readonly giveUpAfterMs: number
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

/** A message that waits behind another one of its key, and is not set aside. */
type Passed = Pick<Planned, 'position' | 'bucket'>

interface Scanned {
  readonly held: Passed[]
  readonly open: readonly Planned[]
}

interface BucketScan {
  readonly bucket: number
  /** The last position of the scan. */
  after: string
  rows: number
  /** Negative: more is passed than what may leave is worth. */
  worth: number
}

/** What may leave is worth that so many messages are passed: to publish one takes longer than to pass them. */
const PASSED_FOR_ONE = 20
/** A scan that has found something ends then, ms. */
const SCAN_MS = 250
/** Set aside beside each look. */
const ASIDE_ROWS = 2_000
/** Set aside before each scan. */
const ASIDE_ROWS_BETWEEN = 10_000
/** Remembered of what a scan has passed. */
const MOST_ASIDE = 200_000

/** The tables of one relay. Every method is a short transaction. */
export class RelayStore {
  readonly #pool: PoolLike
  readonly #schema: string
  readonly #sql: RelayStatements
  readonly #destinations: readonly string[]
  readonly #relay = randomUUID()
  /** The rows by which others see this relay and what it has, although it may have no bucket yet. */
  readonly #presence = -1 - Math.floor(Math.random() * 30_000)

  readonly #plans = new Map<string, Plan>()
  /** What the scan of the plan has passed. If nothing else is there, so much time is spent on it before the next scan. */
  readonly #aside = new Map<string, { readonly held: Passed[]; owedMs: number }>()
  /** Messages that have failed while a plan is made, which may have been read before. */
  readonly #failed = new Map<string, string[]>()
  #shares: ReadonlyMap<string, readonly number[]> = new Map()

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
          this.#forgetLost(destination, leases)
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
      this.#shares = shares
      return shares
    })
  }

  /** If a lease of this relay has ended, another one may have published meanwhile. */
  #forgetLost(destination: string, live: readonly LiveLease[]): void {
    const mine = live.filter(({ relay }) => relay === this.#relay).map(({ bucket }) => bucket)
    const had = this.#shares.get(destination) ?? []
    if (!had.some((bucket) => !mine.includes(bucket))) return
    this.#plans.delete(destination)
    this.#aside.delete(destination)
  }

  /** So that another relay need not wait for the end of the leases. */
  async giveBack(): Promise<void> {
    const { giveLeases, lockLeases } = this.#sql
    await inTransaction(this.#pool, async (client) => {
      await client.query(lockLeases)
      await client.query(giveLeases, [this.#relay, '[]'])
    })
  }

  /**
   * What may leave now, in order.
   *
   * @param busy - Positions of messages in calls that run.
   */
  async read(
    destination: string,
    buckets: readonly number[],
    busy: ReadonlySet<string>,
  ): Promise<readonly StoredMessage[]> {
    const plan = await this.#planOf(destination, buckets, busy)
    const positions = plan.next(LOOK_ROWS, busy)
    const values = [destination, arrayOf(buckets), arrayOf(positions), dueRows(buckets.length)]
    const { rows } = await inTransaction(this.#pool, (client) =>
      client.query(this.#sql.read, values.map(String)),
    )
    const messages = rows.map((row) => toMessage(destination, row))
    // An operator has changed it, or it fills the next look.
    if (messages.length < positions.length) {
      const found = new Set(messages.map(({ position }) => position))
      const last = Number(messages.at(-1)?.position ?? Number.POSITIVE_INFINITY)
      for (const position of positions)
        if (!found.has(position) && Number(position) < last) plan.remove(position)
    }
    return messages
  }

  async #planOf(
    destination: string,
    buckets: readonly number[],
    busy: ReadonlySet<string>,
  ): Promise<Plan> {
    const before = this.#plans.get(destination)
    const isGood = before?.keep(buckets, performance.now()) === true
    if (before !== undefined && isGood && before.next(1, busy).length > 0) {
      await this.#setAside(destination, buckets, ASIDE_ROWS)
      return before
    }
    for (let isEmpty = false; ; isEmpty = true) {
      let isOwing = true
      while (isOwing) {
        isOwing = (await this.#setAside(destination, buckets, ASIDE_ROWS_BETWEEN)) && isEmpty
      }
      const plan = await this.#newPlan(destination, buckets, before)
      if (plan.filled > 0 || this.#aside.get(destination)?.held.length === 0) return plan
    }
  }

  async #newPlan(
    destination: string,
    buckets: readonly number[],
    before: Plan | undefined,
  ): Promise<Plan> {
    const startedAt = performance.now()
    const failed: string[] = []
    this.#failed.set(destination, failed)
    const most = Math.min(
      PLAN_BUCKET_ROWS,
      Math.ceil(PLAN_ROWS / (before?.filled || buckets.length)),
    )
    const { held, open } = await this.#scanned(destination, buckets, most)
    const nowMs = performance.now()
    const tookMs = nowMs - startedAt
    const plan = new Plan(buckets, open, { nowMs, tookMs })
    for (const position of failed) plan.hold(position)
    this.#failed.delete(destination)
    this.#plans.set(destination, plan)
    this.#aside.set(destination, { held, owedMs: tookMs })
    return plan
  }

  /**
   * The first messages of each bucket, in one snapshot. What must wait behind another message of its key is passed, until what
   * may leave is worth the way.
   */
  #scanned(destination: string, buckets: readonly number[], most: number): Promise<Scanned> {
    const scanned = async (client: PoolClientLike): Promise<Scanned> => {
      await client.query(this.#sql.planByIndex)
      const held: Passed[] = []
      const open: Planned[] = []
      let scans = buckets.map((bucket): BucketScan => ({ bucket, after: '0', rows: 0, worth: 0 }))
      const untilMs = performance.now() + SCAN_MS
      while (scans.length > 0 && (open.length === 0 || performance.now() < untilMs)) {
        const of = new Map(scans.map((scan) => [scan.bucket, { ...scan, rows: 0 }]))
        const after = arrayOf(scans.map((scan) => scan.after))
        const values = [destination, arrayOf([...of.keys()]), String(most), after]
        const { rows } = await client.query(this.#sql.plan, values)
        for (const row of rows) {
          const { isHeld, ...planned } = toPlanned(row)
          const { bucket, position } = planned
          if (!isHeld) open.push(planned)
          else if (held.length < MOST_ASIDE) held.push({ position, bucket })
          const scan = of.get(bucket) as BucketScan
          scan.after = position
          scan.rows += 1
          scan.worth += isHeld ? -1 : PASSED_FOR_ONE
        }
        scans = [...of.values()].filter((scan) => scan.rows === most && scan.worth < 0)
      }
      return { held, open }
    }
    return inTransaction(this.#pool, scanned, { isolation: 'repeatable read' })
  }

  /**
   * Sets some of what a scan has passed aside, so that no other scan passes it. Answers whether there is more, and less time was
   * spent on it than on passing it.
   */
  async #setAside(destination: string, buckets: readonly number[], most: number): Promise<boolean> {
    const aside = this.#aside.get(destination)
    if (aside === undefined || aside.held.length === 0) return false
    const startedAt = performance.now()
    const mine = new Set(buckets)
    const some = aside.held.splice(0, most).filter(({ bucket }) => mine.has(bucket))
    const values = [arrayOf(some.map(({ position }) => position))]
    await inTransaction(this.#pool, async (client) => {
      await client.query(this.#sql.planByIndex)
      await client.query(this.#sql.hold, values)
    })
    aside.owedMs -= performance.now() - startedAt
    return aside.held.length > 0 && aside.owedMs > 0
  }

  /** Answers whether there may be more to free. */
  async free(destination: string, buckets: readonly number[]): Promise<boolean> {
    const values = [destination, arrayOf(buckets)]
    const { rowCount } = await inTransaction(this.#pool, (client) =>
      client.query(this.#sql.free, values),
    )
    if (rowCount) this.#plans.delete(destination)
    return (rowCount ?? 0) >= FREE_ROWS
  }

  async remove(destination: string, messages: readonly StoredMessage[]): Promise<void> {
    const sent = JSON.stringify(messages.map(({ id, position }) => ({ id, position })))
    const values = [sent, `{${messages.map(({ position }) => position).join()}}`]
    await inTransaction(this.#pool, (client) => client.query(this.#sql.remove, values))
    const plan = this.#plans.get(destination)
    for (const { position } of messages) plan?.remove(position)
  }

  /** Answers the positions of those that are dead now. */
  async fail(
    destination: string,
    failures: readonly MessageFailure[],
    { attempts, giveUpAfterMs }: FailureLimits,
  ): Promise<ReadonlySet<string>> {
    const failed = failures.map(
      ({ delayMs, error, isHeld = false, message: { id, position } }) => ({
        ...{ id, position, delayMs, isHeld, error: error.toWellFormed() },
      }),
    )
    const positions = failed.map(({ position }) => position)
    const values = [JSON.stringify(failed), attempts, giveUpAfterMs, arrayOf(positions)].map(String)
    const { rows } = await inTransaction(this.#pool, (client) =>
      client.query(this.#sql.fail, values),
    )
    for (const position of positions) this.#plans.get(destination)?.hold(position)
    this.#failed.get(destination)?.push(...positions)
    const dead = rows.filter(({ state }) => state === 'x')
    return new Set(dead.map(({ position }) => String(position)))
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

const arrayOf = (numbers: readonly unknown[]): string => `{${numbers.join()}}`

function toPlanned(row: Readonly<Record<string, unknown>>): Planned & { readonly isHeld: boolean } {
  return {
    ...{ position: String(row['position']), bucket: Number(row['bucket']) },
    lane: row['lane'] === null ? undefined : String(row['lane']),
    isHeld: row['held'] === true,
  }
}

function toMessage(destination: string, row: Readonly<Record<string, unknown>>): StoredMessage {
  const bytesOf = (name: string): Buffer => Buffer.from(String(row[name]), 'hex')
  const envelope = readOutboxEnvelope(bytesOf('envelope'))
  const { headers, isJson, sealed, source, type } = envelope
  const key = row['key'] === null ? undefined : bytesOf('key').toString()
  return {
    ...{
      id: String(row['id']),
      position: String(row['position']),
      attempt: Number(row['attempt']),
    },
    ...{ key, source, type, headers, payload: bytesOf('payload') },
    lane: key === undefined ? undefined : `${destination} ${key}`,
    contentType: contentTypeOf({ headers, isJson }),
    ...(sealed === true && { sealed: { isJson } }),
  }
}

export const contentTypeOf = ({
  headers,
  isJson,
}: Pick<OutboxEnvelope, 'headers' | 'isJson'>): string =>
  givenContentType(headers) ?? (isJson ? 'application/json' : 'application/octet-stream')
