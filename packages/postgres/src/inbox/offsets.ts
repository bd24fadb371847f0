import type {
  FenceState,
  OffsetRange,
  OffsetStore,
  PartitionClaim,
  PartitionFacts,
} from '@onceward/core/ports'
import { type ConsumerContext, one } from '../driver/rows.ts'
import { moveText } from '../statements/offsets.ts'
import { escapeText, unescapeText } from '../statements/text-columns.ts'

type Row = Omit<FenceState, 'open'> &
  Pick<PartitionClaim, 'of'> & { readonly open: readonly number[] }

/** The rows of `kafka_offsets`. */
export function offsetStore({ consumerId, driver, statements }: ConsumerContext): OffsetStore {
  const { claimPartition, readPartition, schema } = statements
  return {
    claim: (id, claim) =>
      driver.shortTransaction(async (connection) => {
        const values = [id, String(consumerId), JSON.stringify(columnsOf(claim))]
        const { rows } = await connection.query(claimPartition, values)
        if (rows.length > 0) return { kind: 'claimed', state: toState(rowIn(rows[0])) }
        const { next, of } = await one<Row>(connection, readPartition, [id])
        return { kind: 'other', stored: { next, of: eachText(of, unescapeText) } }
      }),
    move: (move) =>
      driver.shortTransaction(async (connection) => {
        await connection.query(moveText(move, schema))
        const { rows } = await connection.query(readPartition, [move.id])
        return rows.length === 0 ? undefined : toState(rowIn(rows[0]))
      }),
  }
}

const columnsOf = ({ name, of, startsAt }: PartitionClaim): unknown => ({
  ...{ ...name, startsAt },
  ...eachText(of, escapeText),
})

function eachText(facts: PartitionFacts, change: (text: string) => string): PartitionFacts {
  return Object.fromEntries(Object.entries(facts).map(([name, text]) => [name, change(text)]))
}

const rowIn = (row: Readonly<Record<string, unknown>> = {}): Row =>
  JSON.parse(String(row['answer'])) as Row

function toState({ epoch, generation, next, open }: Row): FenceState {
  const ranges: OffsetRange[] = []
  for (let at = 0; at + 1 < open.length; at += 2) {
    ranges.push([open[at] as number, open[at + 1] as number])
  }
  return { epoch, generation, next, open: ranges }
}
