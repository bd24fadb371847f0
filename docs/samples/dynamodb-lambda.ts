import { DynamoDBClient } from '@aws-sdk/client-dynamodb'
import { createGuard } from '@onceward/core'
import { dynamoLeases } from '@onceward/dynamodb'
import { type LambdaSqsHandler, lambdaSqs } from '@onceward/lambda'
import { z } from 'zod'

const OrderPlaced = z.object({ orderId: z.string(), mail: z.email() })

const confirmations = createGuard(
  {
    consumer: 'confirmations',
    leases: dynamoLeases(new DynamoDBClient({}), { table: 'onceward' }),
    schema: OrderPlaced,
    eventKey: ({ payload }) => payload.orderId,
    onTakeover: 'retry',
  },
  async ({ payload, idempotencyKey }, { signal }) => {
    const response = await fetch('https://mail.example/send', {
      method: 'POST',
      headers: { 'idempotency-key': idempotencyKey, 'content-type': 'application/json' },
      body: JSON.stringify({ to: payload.mail, order: payload.orderId }),
      signal,
    })
    if (!response.ok) throw new Error(`mail answered ${response.status}`)
  },
)

export const handler: LambdaSqsHandler = lambdaSqs(confirmations)
