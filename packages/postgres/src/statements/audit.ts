interface Audited {
  readonly from: string
  readonly id: string
  /** Parameters. */
  readonly who?: string
  readonly why?: string
  /** What the statement answers. Default: the target. */
  readonly answer?: string
}

/** The end of a statement of an operator: writes down what it has done. */
export const audit = (
  schema: string,
  action: string,
  { from, id, who = '$2', why = 'null', answer = 'target::text' }: Audited,
): string => `
insert into ${schema}.audit (who, action, target, consumer_id, why)
select coalesce(${who}::text, session_user), '${action}', ${id}, consumer_id, ${why} from ${from}
returning ${answer} as answer`
