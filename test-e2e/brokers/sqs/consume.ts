import type { Consumption, Guard } from '@onceward/core'
import { consumeSqs } from '@onceward/sqs'
import type { DeliveryWatch } from '../broker.ts'
import type { SqsSource } from './queue.ts'
import { watchedClient } from './watched-client.ts'

export function consume(
  source: SqsSource,
  guard: Guard,
  { onReceive }: DeliveryWatch,
): Promise<Consumption> {
  const { queueUrl, deadUrl, visibilityMs } = source
  const client = watchedClient(source, ({ order, messageId }) => onReceive(order, messageId))
  return consumeSqs(client, guard, {
    queueUrl,
    deadLetter: { queueUrl: deadUrl },
    visibilityMs,
    longPollMs: 2_000,
    drainMs: 5_000,
  })
}
