import { inTransaction, type PoolLike } from '../client.ts'
import { texts } from '../driver/rows.ts'
import { quotedSchema } from '../statements/schema-name.ts'

/** Changes of dead messages of the outbox, by the ids of their rows. Answer the rows that were dead, and are changed. */
export interface DeadMessageChanges {
  /** Relays publish them again, with a full set of attempts, behind the messages of their key that have left since. */
  replay(positions: readonly string[]): Promise<readonly string[]>
  discard(positions: readonly string[]): Promise<readonly string[]>
}

/** For the command line, which changes group by group. */
export function deadMessageChanges(
  pool: PoolLike,
  { schema }: { readonly schema?: string | undefined },
): DeadMessageChanges {
  const table = `${quotedSchema(schema)}.outbox_messages`
  const isDead = "state = 'x' and position = any ($1::int8[]) returning position::text as answer"
  const change = (statement: string) => (positions: readonly string[]) =>
    inTransaction(pool, async (client) =>
      texts(await client.query(statement, [`{${positions.join()}}`])),
    )
  return {
    replay: change(`update ${table} set state = 'q', attempt = 0 where ${isDead}`),
    discard: change(`delete from ${table} where ${isDead}`),
  }
}
