import type { Database, Query } from './database.ts'
import type { Finding } from './finding.ts'

const OPERATOR = 'onceward_operator'

interface Grants {
  /** The role that lacks some: that of `docs/least-privilege.sql` if there is one, or this login. */
  readonly role: string
  readonly settings: boolean
  readonly leases: boolean
}

/** Rights that a later `docs/least-privilege.sql` gives to operators: databases that were set up before it lack them. */
export async function grantFindings(
  query: Query,
  { quoted }: Pick<Database, 'quoted'>,
): Promise<readonly Finding[]> {
  const may = (role: string): string => `
    select quote_ident(${role}) as role,
      has_column_privilege(${role}, $1, 'epoch', 'select') and has_column_privilege(${role}, $1, 'sweep_cursor', 'select')
        and has_column_privilege(${role}, $1, 'swept_at', 'select') as settings,
      has_table_privilege(${role}, $2, 'select') as leases`
  const named = await query<Grants>(
    `${may('rolname')} from pg_roles where rolname in ('${OPERATOR}', current_user) order by rolname = '${OPERATOR}' desc`,
    [`${quoted}.settings`, `${quoted}.leases`],
  )
  const lacking = named.find(({ leases, settings }) => !(leases && settings))
  if (lacking === undefined) return []
  const { leases, role, settings } = lacking
  const statements = [
    ...(settings
      ? []
      : [`grant select (epoch, sweep_cursor, swept_at) on ${quoted}.settings to ${role}`]),
    ...(leases ? [] : [`grant select on ${quoted}.leases to ${role}`]),
  ]
  return [
    {
      ...{ severity: 'warning', about: 'tables' },
      finding: `The role ${role} lacks rights that \`status\`, \`explain\` and \`doctor\` need: it was made by an earlier docs/least-privilege.sql.`,
      remedy: `Run \`${statements.join('; ')}\` as the owner of the tables.`,
    },
  ]
}

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
