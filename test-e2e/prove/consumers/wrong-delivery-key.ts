import { randomUUID } from 'node:crypto'
import { type Consumption, createGuard, position } from '@onceward/core'
import { pgInbox } from '@onceward/postgres/pg'
import type { ProveEnv } from '@onceward/testing/prove'
import { consume, options, poolOf } from './shared.ts'

export { count, event, setup, teardown } from './shared.ts'

/** Wrong: the key is that of the delivery, so a copy is another event. RabbitMQ gives none, so one is drawn there. */
export async function start(env: ProveEnv): Promise<Consumption> {
  const inbox = pgInbox(poolOf(env))
  const ofDelivery = {
    ...options(env),
    inbox,
    eventKey: env.broker === 'amqp' ? () => randomUUID() : position(),
  }
  const guard = createGuard(ofDelivery, async ({ payload }, { tx }) => {
    await tx.query('insert into charges values ($1, $2)', [payload.id, payload.cents])
  })
  return consume(env, guard)
}
