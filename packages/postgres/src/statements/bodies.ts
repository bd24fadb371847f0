import { DELIVERY } from './attempts.ts'

/** Large bodies in pieces: of events and of refused messages. */
export interface BodyStatements {
  readonly bodies: Readonly<Record<'event' | 'refused', BodyStatementsOfKind>>
}

export interface BodyStatementsOfKind {
  /** `$1` id, `$2` part, `$3` bytes. A parked event keeps the delivery it has. */
  readonly writePart: string
  /** `$1` id, `$2` part. Answers the bytes. */
  readonly readPart: string
  /** `$1` id. Locks a dead letter, and answers `{ isWhole }`. No row: it is no longer a dead letter. */
  readonly lockBody: string
  /** `$1` deliveries with their ids. Replaces what stands in place of one that was too large to store. */
  readonly replaceDelivery: string
}

export function bodyStatements(schema: string): BodyStatements {
  return {
    bodies: {
      event: ofKind({
        ...{ rows: `${schema}.failed_events`, parts: `${schema}.failed_event_parts` },
        ...{ id: 'event_id', isOpen: 'r.reason is not null and r.discarded_at is null' },
        isReplaceable: 'not r.parked',
      }),
      refused: ofKind({
        ...{ rows: `${schema}.refused_messages`, parts: `${schema}.refused_message_parts` },
        ...{ id: 'refused_id', isOpen: 'true', isReplaceable: 'true' },
      }),
    },
  }
}

interface Kind {
  readonly rows: string
  readonly parts: string
  readonly id: string
  readonly isOpen: string
  readonly isReplaceable: string
}

function ofKind({ rows, parts, id, isOpen, isReplaceable }: Kind): BodyStatementsOfKind {
  return {
    writePart: `
insert into ${parts} (${id}, part, bytes)
select r.${id}, $2::text::integer, decode($3::text, 'base64')
from ${rows} r where r.${id} = $1::text::uuid and ${isReplaceable}
on conflict (${id}, part) do update set bytes = excluded.bytes`,

    readPart: `
select encode(bytes, 'base64') as answer from ${parts}
where ${id} = $1::text::uuid and part = $2::text::integer`,

    lockBody: `
select json_build_object('isWhole', r.body_parts > 0 or octet_length(r.body) = r.body_bytes)::text as answer
from ${rows} r where r.${id} = $1::text::uuid and ${isOpen} for update`,

    replaceDelivery: `
update ${rows} r set
  source = m.source, properties = decode(m.properties, 'base64'), envelope = decode(m.envelope, 'base64'),
  headers = decode(m.headers, 'base64'), body = decode(m.body, 'base64'), body_bytes = m."bodyBytes",
  body_parts = m."bodyParts"
from json_to_recordset($1::text::json) as m(id uuid, ${DELIVERY})
where r.${id} = m.id and ${isReplaceable}`,
  }
}
