import { jobsIn } from '@onceward/bullmq'
import { createGuard } from '@onceward/core'
import { pgInbox } from '@onceward/postgres/pg'
import type { Pool } from 'pg'
import { z } from 'zod'

const Signup = z.object({ email: z.email() })

export function createSignups(pool: Pool) {
  return createGuard(
    {
      ...{ consumer: 'signups', inbox: pgInbox(pool), schema: Signup },
      eventKey: ({ payload }) => payload.email,
    },
    async ({ payload: { email } }, { tx }) => {
      await tx.query('insert into users (email) values ($1)', [email])
      // Committed with the user, or rolled back with it.
      await jobsIn(tx).queue('mails').add('welcome', { email })
    },
  )
}
