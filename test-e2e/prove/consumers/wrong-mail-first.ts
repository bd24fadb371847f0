import { type Consumption, createGuard } from '@onceward/core'
import { pgInbox } from '@onceward/postgres/pg'
import type { ProveEnv } from '@onceward/testing/prove'
import { consume, countIn, options, poolOf } from './shared.ts'

export { event, setup, teardown } from './shared.ts'

export const count: ReturnType<typeof countIn> = countIn('mails')

/** Wrong: the mail is sent before the commit, so a kill in between sends it again. The table is the post office. */
export async function start(env: ProveEnv): Promise<Consumption> {
  const pool = poolOf(env)
  const sendMail = (id: string) => pool.query('insert into mails values ($1)', [id])
  const guard = createGuard({ ...options(env), inbox: pgInbox(pool) }, async (event, { tx }) => {
    const { cents, id } = event.payload
    await tx.query('insert into charges values ($1, $2)', [id, cents])
    await sendMail(id)
  })
  return consume(env, guard)
}
