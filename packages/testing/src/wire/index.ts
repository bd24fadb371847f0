export {
  PostgresConversation,
  type WireEvent,
  type WireMoment,
  type WireTransaction,
} from './postgres-conversation.ts'
export { type SocketWatch, watchSockets } from './sockets.ts'
export { controlOf } from './sql-texts.ts'
export { amqpMethod, kafkaRequest, sqsAction, type WordMatcher } from './words.ts'
