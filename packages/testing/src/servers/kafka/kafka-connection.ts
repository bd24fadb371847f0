/** How to reach a Kafka cluster. */
export interface KafkaConnection {
  readonly brokers: string[]
  /** Where the cluster wants to know who asks. */
  readonly sasl?: KafkaUser & { readonly mechanism: 'plain' }
}

export interface KafkaUser {
  readonly username: string
  readonly password: string
}

/** Rejects until the cluster has as many brokers that are ready to serve. */
export async function probeKafka(connection: KafkaConnection, least = 1): Promise<void> {
  const { Kafka, logLevel } = await import('kafkajs')
  const client = new Kafka({
    ...connection,
    clientId: 'onceward-probe',
    logLevel: logLevel.NOTHING,
    connectionTimeout: 2_000,
    requestTimeout: 5_000,
    retry: { retries: 0 },
  })
  const admin = client.admin()
  try {
    await admin.connect()
    const cluster = await admin.describeCluster()
    const { length } = cluster.brokers
    if (length < least) throw new Error(`${length} of ${least} brokers are registered`)
  } finally {
    await admin.disconnect()
  }
}
