import type { Database, Query } from './database.ts'
import type { Finding } from './finding.ts'

const OPERATOR = 'onceward_operator'
const CONSUMER = 'onceward_consumer'

interface Right {
  /** Whether the role `r` has it, as an SQL condition. */
  readonly has: string
  readonly grant: string
}

const rightsOf = (quoted: string): Readonly<Record<'operator' | 'consumer', readonly Right[]>> => {
  const named = (table: string): string => `'${quoted.replaceAll("'", "''")}.${table}'`
  const reads = (table: string): Right => ({
    has: `has_table_privilege(r.oid, ${named(table)}, 'select')`,
    grant: `grant select on ${quoted}.${table}`,
  })
  const paused = ['paused_at', 'paused_until', 'pause_source', 'paused_by', 'paused_why']
  const pauses: Right = {
    has: `has_column_privilege(r.oid, ${named('consumers')}, 'paused_at', 'update')`,
    grant: `grant update (${paused.join(', ')}) on ${quoted}.consumers`,
  }
  const removes: Right = {
    has: `has_column_privilege(r.oid, ${named('consumers')}, 'removed_at', 'update')`,
    grant: `grant update (removed_at) on ${quoted}.consumers`,
  }
  const columns = ['epoch', 'sweep_cursor', 'swept_at']
  return {
    operator: [
      {
        has: columns
          .map((each) => `has_column_privilege(r.oid, ${named('settings')}, '${each}', 'select')`)
          .join(' and '),
        grant: `grant select (${columns.join(', ')}) on ${quoted}.settings`,
      },
      ...[reads('leases'), reads('workers')],
      ...[reads('outbox_messages'), reads('outbox_leases')],
      pauses,
      removes,
    ],
    consumer: [
      {
        has: `has_table_privilege(r.oid, ${named('workers')}, 'insert')`,
        grant: `grant select, insert, update, delete on ${quoted}.workers`,
      },
      {
        has: `has_column_privilege(r.oid, ${named('consumers')}, 'worker_ended_at', 'update')`,
        grant: `grant update (worker_ended_at) on ${quoted}.consumers`,
      },
      pauses,
    ],
  }
}

/**
 * Rights that a later `docs/least-privilege.sql` gives: databases that were set up before it lack them. Examines its role
 * of operators if there is one, or else this login, and its role of consumers.
 */
export async function grantFindings(
  query: Query,
  { quoted }: Pick<Database, 'quoted'>,
): Promise<readonly Finding[]> {
  const { consumer, operator } = rightsOf(quoted)
  const lacking = async (where: string, rights: readonly Right[]): Promise<readonly Finding[]> => {
    const named = await query<{ readonly role: string; readonly has: readonly boolean[] }>(
      `select quote_ident(r.rolname) as role, array[${rights.map(({ has }) => has).join(', ')}] as has
       from pg_roles r where ${where} order by r.rolname = '${OPERATOR}' desc`,
    )
    const found = named.find(({ has }) => has.includes(false))
    if (found === undefined) return []
    const grants = rights.filter((_, index) => found.has[index] === false)
    return [finding(found.role, grants)]
  }
  return [
    ...(await lacking(`r.rolname in ('${OPERATOR}', current_user)`, operator)),
    ...(await lacking(`r.rolname = '${CONSUMER}'`, consumer)),
  ]
}

const finding = (role: string, grants: readonly Right[]): Finding => ({
  ...{ severity: 'warning', about: 'tables' },
  finding: `The role ${role} lacks rights of the tables of this release: it was made by an earlier docs/least-privilege.sql.`,
  remedy: `Run \`${grants.map(({ grant }) => `${grant} to ${role}`).join('; ')}\` as the owner of the tables.`,
})

/** Whether this login may read what findings of the tables are made of. */
export async function mayReadStatus(
  query: Query,
  { quoted }: Pick<Database, 'quoted'>,
): Promise<boolean> {
  const [right] = await query<{ readonly may: boolean }>(
    `select has_column_privilege($1, 'sweep_cursor', 'select') and has_column_privilege($1, 'swept_at', 'select') as may`,
    [`${quoted}.settings`],
  )
  return right?.may === true
}
