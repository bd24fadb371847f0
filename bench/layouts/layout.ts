import { randomBytes, randomInt, randomUUID } from 'node:crypto'

/** An event to claim. */
export interface Claim {
  readonly id: string
  readonly fingerprint: number
}

/** A way to remember events, and how an event is claimed in it. */
export interface Layout {
  readonly name: string
  /** The table that grows when an event is claimed. */
  readonly table: string
  /** A statement for each session. */
  readonly setting?: string | undefined
  /** The statements of a claim. The first one inserts the rows of the events that are new. */
  claim(events: readonly Claim[]): string
}

/** Today's table without events and with all of them; the partitions, and the current one of eight. */
export const TABLES = {
  empty: 'empty',
  full: 'remembered',
  partitions: 'partitions',
  current: 'partition_8',
} as const
/** The other seven of eight. */
export const CLOSED: readonly string[] = Array.from({ length: 7 }, (_, i) => `partition_${i + 1}`)

/** A Bloom filter of the events in the closed partitions: a row for each page, so that its place is known. */
export const FILTER = { table: 'filter', bytesPerPage: 8_000, bitsPerEvent: 10, hashes: 7 }

export const newClaim = (): Claim => ({ id: randomUUID(), fingerprint: randomInt(2 ** 32) })

const ID = ' returning event_id::pg_catalog.text as id'

/** The claim of the Postgres package: `freshText` in packages/postgres/src/transaction/claim-sql.ts. */
export function oneTable(name: string, table: string, setting?: string): Layout {
  return {
    ...{ name, table, setting },
    claim: (events) => {
      const rows = events.map(({ id, fingerprint }) => `('${id}',${fingerprint},1)`)
      const returning = events.length > 1 ? `${ID}, xmin::pg_catalog.text as xid` : ''
      return `insert into ${table} (event_id, fingerprint, consumer_id) values ${rows.join()} on conflict do nothing${returning}`
    },
  }
}

/**
 * Claims in the current partition, then looks into the closed ones. A claim names the partition, so that it fails when
 * its process has not heard that the partition was closed. Looking is a statement of its own: inside the insert the
 * server would have to plan it, which costs a single event more.
 */
export function partitioned(name: string, look?: (events: readonly Claim[]) => string): Layout {
  return {
    ...{ name, table: TABLES.current },
    claim: (events) => {
      const rows = events.map(({ id, fingerprint }) => `(8,'${id}',${fingerprint},1)`)
      // A partitioned table has no xmin to return.
      const returning =
        events.length > 1 ? `${ID}, pg_current_xact_id()::pg_catalog.text as xid` : ''
      const insert = `insert into ${TABLES.partitions} (generation, event_id, fingerprint, consumer_id) values ${rows.join()} on conflict do nothing${returning}`
      return look === undefined ? insert : `${insert};${look(events)}`
    },
  }
}

/** Every one of the tables is asked by its index. */
export function probe(tables: readonly string[]): (events: readonly Claim[]) => string {
  return (events) => {
    const ids = events.map(({ id }) => id).join()
    const wanted = events.length > 1 ? `any('{${ids}}')` : `'${ids}'`
    return tables
      .map((table) => `select event_id from ${table} where event_id = ${wanted}`)
      .join(' union all ')
  }
}

/** The filter is asked. */
export function askFilter(pages: number): (events: readonly Claim[]) => string {
  const bits = Array.from({ length: FILTER.hashes }, (_, i) => `b${i}`)
  const isSet = bits.map((bit) => `get_bit(f.bits, c.${bit}) = 1`).join(' and ')
  return (events) => {
    const rows = events.map(({ id }) => {
      const { page, places } = placesOf(id, pages)
      return `('${id}','(${page},1)'::tid,${places.join()})`
    })
    return `select c.id from (values ${rows.join()}) c (id, page, ${bits.join()}) join ${FILTER.table} f on f.ctid = c.page where ${isSet}`
  }
}

/** The page of an event in the filter, and its bits there: parts of the hash that its id is. */
function placesOf(
  id: string,
  pages: number,
): { readonly page: number; readonly places: readonly number[] } {
  const hash = Buffer.from(id.replaceAll('-', ''), 'hex')
  const first = hash.readUInt32LE(0)
  const step = hash.readUInt32LE(10)
  const places = Array.from(
    { length: FILTER.hashes },
    (_, i) => (first + i * step) % (FILTER.bytesPerPage * 8),
  )
  return { page: hash.readUInt32BE(12) % pages, places }
}

export const filterPages = (events: number): number =>
  Math.ceil((events * FILTER.bitsPerEvent) / 8 / FILTER.bytesPerPage)

/** A Bloom filter with ten bits an event and seven hashes is half full, so random bits are as good as real ones. */
export const filterPage = (): Buffer => randomBytes(FILTER.bytesPerPage)
