import type { Admin, Consumer, Kafka } from 'kafkajs'

/** What this package calls of a client of kafkajs. Brokers, credentials, retries and sockets are the user's. */
export type KafkaClient = Pick<Kafka, 'consumer' | 'admin'>

/** What `wrapKafka` calls of a consumer. */
export type KafkaConsumer = Pick<Consumer, 'on' | 'events' | 'pause' | 'resume' | 'seek'>

/** Requests to a cluster other than for records. */
export type KafkaAdmin = Pick<
  Admin,
  'fetchTopicMetadata' | 'fetchTopicOffsets' | 'describeConfigs' | 'describeGroups' | 'listTopics'
>
