export type { DynamoLike } from './client.ts'
export { type DynamoLeases, dynamoLeases } from './lease-store.ts'
export type { DynamoLeasesOptions } from './options.ts'
