import { fromJsonText, type IdentifiedEvent } from '@onceward/core/ports'
import type { Statements } from '../statements/index.ts'
import { escapeText } from '../statements/text-columns.ts'
import type { Connection, Driver, QueryAnswer } from './driver.ts'

/** The driver and statements for the short transactions of one consumer. */
export interface ConsumerContext {
  readonly driver: Pick<Driver<unknown>, 'query' | 'durable' | 'shortTransaction'>
  readonly statements: Statements
  /** Of `consumers`. */
  readonly consumerId: number
}

/** The context of what stores and reads deliveries. */
export interface StoringContext extends ConsumerContext {
  /** The largest delivery that is stored. */
  readonly maxStoredBytes: number
}

/** Rows of a statement that answers JSON texts. */
export function answers<Row>(answer: Pick<QueryAnswer, 'rows'>): readonly Row[] {
  return texts(answer).map((text) => fromJsonText(text) as Row)
}

/** Rows of a statement that answers plain texts: ids, counts. */
export function texts(answer: Pick<QueryAnswer, 'rows'>): readonly string[] {
  return answer.rows.map((row) => String(row['answer']))
}

/** The only row of a statement that always has one. */
export async function one<Row>(
  connection: Connection,
  text: string,
  values?: readonly unknown[],
): Promise<Row> {
  const [row] = answers<Row>(await connection.query(text, values))
  if (row === undefined)
    throw new Error('onceward: a statement that always returns a row returned none')
  return row
}

/** An event as a row parameter. */
export interface EventParameter {
  readonly id: string
  readonly fingerprint: string
  readonly key: string
  readonly tenant: string | undefined
}

export function eventParameter(event: IdentifiedEvent): EventParameter {
  const { id, fingerprint, key, tenant } = event
  return {
    id,
    fingerprint: fingerprint.toString(),
    key: escapeText(key),
    tenant: tenant === undefined ? undefined : escapeText(tenant),
  }
}

/** Ids as an array literal. They are UUIDs made by the guard, so nothing must be escaped. */
export function idArray(events: readonly { readonly id: string }[]): string {
  return `{${events.map(({ id }) => id).join(',')}}`
}
