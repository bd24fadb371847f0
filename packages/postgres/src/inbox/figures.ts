import type { InboxFigures } from '@onceward/core/ports'
import { type ConsumerContext, one } from '../driver/rows.ts'

type Row = Omit<InboxFigures, 'parkedForMs'> & { readonly parkedForMs: number | null }

export async function figures({
  driver,
  statements,
  consumerId,
}: ConsumerContext): Promise<InboxFigures> {
  const row = await one<Row>(driver, statements.readFigures, [String(consumerId)])
  return { ...row, parkedForMs: row.parkedForMs ?? 0 }
}
