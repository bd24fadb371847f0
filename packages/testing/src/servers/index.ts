export { chromium } from './chromium/chromium.ts'
export { type KafkaOptions, kafka } from './kafka/kafka.ts'
export { type KafkaCluster, kafkaCluster } from './kafka/kafka-cluster.ts'
export type { KafkaConnection, KafkaUser } from './kafka/kafka-connection.ts'
export { type NatsOptions, type NatsServerConnection, nats } from './nats/nats.ts'
export { type NatsCluster, natsCluster } from './nats/nats-cluster.ts'
export { type PgbouncerOptions, pgbouncer } from './postgres/pgbouncer.ts'
export {
  type PostgresConnection,
  type PostgresOptions,
  type PostgresServer,
  postgres,
  postgresOf,
} from './postgres/postgres.ts'
export { installedPostgres } from './postgres/postgres-binaries.ts'
export {
  type PrometheusConnection,
  type PrometheusOptions,
  prometheus,
} from './prometheus/prometheus.ts'
export { prometheusBinaries } from './prometheus/prometheus-binaries.ts'
export { type RabbitmqConnection, type RabbitmqOptions, rabbitmq } from './rabbitmq/rabbitmq.ts'
export { type RedisConnection, type RedisOptions, redis } from './redis/redis.ts'
export { type RedisSentinels, type SentinelOptions, sentinels } from './redis/sentinels.ts'
export { freePort } from './run/ports.ts'
export {
  type DataHook,
  type DataVerdict,
  type Direction,
  type ProxiedConnection,
  type ProxyTarget,
  proxy,
  type Silence,
  swallowReplyTo,
  type TcpProxy,
  type TcpProxyOptions,
} from './run/proxy.ts'
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
} from './run/server.ts'
export { type SqsOptions, sqs } from './sqs/sqs.ts'
export type { SqsConnection } from './sqs/sqs-connection.ts'
