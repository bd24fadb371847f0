import type { Consumption, Guard } from '@onceward/core'
import { consumeSqs } from '@onceward/sqs'
import { watchedClient } from '../crash/crash-client.ts'
import type { QueueSource } from '../workers/protocol.ts'

/** What a worker wants to know of its deliveries. */
export interface Watch {
  /** The broker has handed over a message; `position` as the adapter names it, where it is known by now. */
  onReceive(order: string, position?: string): void
}

export function fromSqs(
  source: QueueSource,
  guard: Guard,
  { onReceive }: Watch,
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
