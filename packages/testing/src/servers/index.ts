export { type KafkaOptions, kafka } from './kafka.ts'
export { type KafkaCluster, kafkaCluster } from './kafka-cluster.ts'
export type { KafkaConnection, KafkaUser } from './kafka-connection.ts'
export { type PgbouncerOptions, pgbouncer } from './pgbouncer.ts'
export {
  type PostgresConnection,
  type PostgresOptions,
  type PostgresServer,
  postgres,
} from './postgres.ts'
export {
  type DataHook,
  type DataVerdict,
  type Direction,
  type ProxiedConnection,
  proxy,
  swallowReplyTo,
  type TcpProxy,
  type TcpProxyOptions,
} from './proxy.ts'
export { type RabbitmqConnection, type RabbitmqOptions, rabbitmq } from './rabbitmq.ts'
export { type RedisConnection, type RedisOptions, redis } from './redis.ts'
export { type RedisSentinels, type SentinelOptions, sentinels } from './sentinels.ts'
export {
  type How,
  SERVICES,
  type Server,
  ServerMissingError,
  ServerNotOursError,
  type ServerOptions,
  ServerStartError,
  type ServiceName,
  skipped,
} from './server.ts'
export { type SqsOptions, sqs } from './sqs.ts'
export type { SqsConnection } from './sqs-connection.ts'
