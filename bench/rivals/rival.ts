import type { SQSClient } from '@aws-sdk/client-sqs'

export type Sqs = Pick<SQSClient, 'send'>

/** Where a rival runs. */
export interface Surroundings {
  readonly databaseUrl: string
  readonly redisUrl: string
  readonly sqs: Sqs
  readonly queueUrl: string
  /** How soon what a dead process had in hand comes back, milliseconds. */
  readonly hiddenMs: number
  /** Most events of one transaction, where one has many. */
  readonly batch: number
}

/** One way to consume orders from SQS and write one effect each. */
export interface Rival {
  /** It is told to users under this name. */
  readonly name: string
  readonly hasRedis: boolean
  /** Times the events of a round: more for the fast ones, so that a round is no blink. */
  readonly factor?: number
  /** What it needs in the database, once. */
  setUp(databaseUrl: string): Promise<void>
  /** Consumes until it is disposed of. */
  consume(surroundings: Surroundings): Promise<AsyncDisposable>
}
