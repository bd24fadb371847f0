import { inTransaction, type PoolLike } from '../client.ts'
import { readOutboxEnvelope } from '../statements/outbox-envelope.ts'
import { quotedSchema } from '../statements/schema-name.ts'

/** Changes of dead messages of the outbox, by the ids of their rows. Answer the rows that were dead, and are changed. */
export interface DeadMessageChanges {
  /** Relays publish them again, with a full set of attempts, behind the messages of their key that have left since. */
  replay(positions: readonly string[]): Promise<readonly string[]>
  discard(positions: readonly string[]): Promise<readonly string[]>
}

/** Of the operator. */
export interface DeadMessageOptions {
  readonly schema?: string | undefined
  /** Name for the table `audit`. Default: the user of the session. */
  readonly by?: string | undefined
  /** Stored in the table `audit`. */
  readonly why?: string | undefined
}

interface Changed {
  readonly answer: string
  readonly id: string
  readonly envelope: string
}

/** For the command line, which changes group by group. */
export function deadMessageChanges(
  pool: PoolLike,
  { by, schema, why }: DeadMessageOptions,
): DeadMessageChanges {
  const quoted = quotedSchema(schema)
  const table = `${quoted}.outbox_messages`
  const isDead = `state = 'x' and position = any ($1::int8[])
    returning position::text as answer, message_id as id, encode(envelope, 'hex') as envelope`
  const change =
    (action: string, statement: string) =>
    (positions: readonly string[]): Promise<readonly string[]> =>
      inTransaction(pool, async (client) => {
        const { rows } = await client.query(statement, [`{${positions.join()}}`])
        const changed = rows as unknown as readonly Changed[]
        const audited = JSON.stringify(changed.map(toAudited))
        await client.query(auditText(quoted), [audited, action, by ?? null, why ?? null])
        return changed.map(({ answer }) => answer)
      })
  return {
    replay: change('replay', `update ${table} set state = 'q', attempt = 0 where ${isDead}`),
    discard: change('discard', `delete from ${table} where ${isDead}`),
  }
}

/** Read here, because the database may have another encoding than UTF-8. */
function toAudited({ envelope, id }: Changed): { readonly id: string; readonly consumer: string } {
  const { source } = readOutboxEnvelope(Buffer.from(envelope, 'hex'))
  return { id, consumer: source }
}

/** An id that is no UUID, because a handler gave it, is written as its hash. */
const auditText = (schema: string): string => `
insert into ${schema}.audit (who, action, target, consumer_id, why)
select coalesce($3::text, session_user), $2,
  case when id ~ '^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$' then id::uuid else md5(id)::uuid end,
  coalesce((select c.id from ${schema}.consumers c where c.name = m.consumer), 0), $4::text
from json_to_recordset($1::json) as m(id text, consumer text)`
