import type { SQSClient } from '@aws-sdk/client-sqs'

export type Sqs = Pick<SQSClient, 'send'>

/** Where a rival runs. */
export interface Surroundings {
  readonly databaseUrl: string
  readonly redisUrl: string
  readonly sqs: Sqs
  readonly queueUrl: string
  /** How soon messages in flight in a dead process come back, milliseconds. */
  readonly hiddenMs: number
  /** The most events of one transaction, if a transaction has several. */
  readonly batch: number
}

/** One way to consume orders from SQS and write one effect each. */
export interface Rival {
  /** The name in the output. */
  readonly name: string
  readonly hasRedis: boolean
  /** A multiple of the events of a round, so that rounds of fast contestants last long enough. */
  readonly factor?: number
  /** Creates what the rival needs in the database. */
  setUp(databaseUrl: string): Promise<void>
  /** Consumes until it is disposed of. */
  consume(surroundings: Surroundings): Promise<AsyncDisposable>
}
