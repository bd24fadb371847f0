export { type LambdaEventBridgeHandler, lambdaEventBridge } from './event-bridge.ts'
export {
  type LambdaHttpGuard,
  type LambdaHttpHandler,
  type LambdaHttpResponse,
  lambdaHttp,
} from './http.ts'
export type { LambdaContext } from './invocation.ts'
export {
  type KafkaBatchResponse,
  type LambdaKafkaEvent,
  type LambdaKafkaHandler,
  lambdaKafka,
} from './kafka.ts'
export {
  DEFAULTS,
  type LambdaEventBridgeOptions,
  type LambdaKafkaOptions,
  type LambdaOptions,
  type LambdaSnsOptions,
  type LambdaSqsOptions,
  type LambdaStreamOptions,
  type VisibilityChange,
} from './options.ts'
export { type LambdaSnsEvent, type LambdaSnsHandler, lambdaSns } from './sns.ts'
export {
  type LambdaSqsEvent,
  type LambdaSqsHandler,
  lambdaSqs,
  type SqsBatchResponse,
} from './sqs.ts'
export {
  type LambdaStreamEvent,
  type LambdaStreamHandler,
  lambdaDynamoDbStream,
  lambdaKinesis,
  type StreamBatchResponse,
} from './streams.ts'
