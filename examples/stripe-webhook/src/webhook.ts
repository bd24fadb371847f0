import type { HttpGuard } from '@onceward/http'
import { createWebhookGuard, stripeSignature } from '@onceward/http/webhooks'
import { pgInbox } from '@onceward/postgres/pg'
import type { Pool } from 'pg'
import { z } from 'zod'
import { signingSecret } from './settings.ts'

/** The part of Stripe's event that this service reads. */
const Event = z.object({
  type: z.string(),
  data: z.object({
    object: z.object({
      amount_total: z.int().optional(),
      metadata: z.object({ orderId: z.string().optional() }).optional(),
    }),
  }),
})

export function createStripeWebhook(pool: Pool): HttpGuard {
  return createWebhookGuard(
    {
      consumer: 'webhooks.stripe',
      inbox: pgInbox(pool),
      schema: Event,
      // A delivery with a wrong signature is answered with 401, and nothing is stored.
      verify: stripeSignature(signingSecret),
    },
    async ({ payload: { type, data } }, { tx }) => {
      const { amount_total: cents, metadata } = data.object
      if (type !== 'checkout.session.completed' || metadata?.orderId === undefined) return
      const values = [metadata.orderId, cents]
      await tx.query('insert into payments (order_id, cents) values ($1, $2)', values)
    },
  )
}
