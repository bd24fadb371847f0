import { createGuard } from '@onceward/core'
import { pgInbox } from '@onceward/postgres/pg'
import type { Pool } from 'pg'
import { z } from 'zod'

const Import = z.object({ tenant: z.string(), orderId: z.string() })

/** A tenant that imports a million orders takes two handlers of a process, and not all of them. */
export const createImports = (pool: Pool) =>
  createGuard(
    {
      consumer: 'imports',
      inbox: pgInbox(pool),
      schema: Import,
      groupConcurrency: { by: ({ payload }) => payload.tenant, max: 2 },
    },
    async ({ payload }, { tx }) => {
      await tx.query('insert into imports (order_id) values ($1)', [payload.orderId])
    },
  )
