/** The images of the Docker path; `docker-compose.yml` uses the same, a test compares them. */
export const IMAGES = {
  postgres: 'postgres:18.4',
  redis: 'redis:8.2.1',
  sqs: 'softwaremill/elasticmq:1.7.1',
  kafka: 'apache/kafka:4.3.1',
  rabbitmq: 'rabbitmq:4.1.4',
  nats: 'nats:2.12.1-alpine',
} as const
