import type { DynamoDBClient } from '@aws-sdk/client-dynamodb'

/** A client of the AWS SDK. It stays yours: onceward neither closes nor changes it. */
export type DynamoLike = Pick<DynamoDBClient, 'send'>
