import type { Runtime } from '@onceward/core'
import { endsWithin, withTimeout } from '@onceward/core/adapter'
import type { KafkaAdmin, KafkaClient } from '../client.ts'

/** For all calls of one connection together. */
const ASK_MS = 20_000
const DISCONNECT_MS = 2_000

/** Asks a cluster on a separate connection, and disconnects. Rejects with the error of kafkajs. */
export async function askCluster<Answer>(
  kafka: Pick<KafkaClient, 'admin'>,
  runtime: Runtime,
  ask: (admin: KafkaAdmin) => Promise<Answer>,
): Promise<Answer> {
  const admin = kafka.admin({ retry: { initialRetryTime: 100, maxRetryTime: 1_000, retries: 5 } })
  const asking = (async () => {
    await admin.connect()
    return ask(admin)
  })()
  try {
    return await withTimeout(runtime, asking, { call: 'the cluster', budgetMs: ASK_MS })
  } finally {
    // Not before the answer: a connection that opens after its disconnect keeps the process alive.
    const disconnect = (): Promise<void> => admin.disconnect()
    await endsWithin(runtime, asking.then(disconnect, disconnect), DISCONNECT_MS)
  }
}
