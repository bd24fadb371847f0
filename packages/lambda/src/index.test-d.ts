import type { Guard } from '@onceward/core'
import type {
  APIGatewayProxyHandler,
  APIGatewayProxyHandlerV2,
  Context,
  DynamoDBStreamHandler,
  EventBridgeHandler,
  Handler,
  KinesisStreamHandler,
  LambdaFunctionURLHandler,
  MSKEvent,
  SelfManagedKafkaEvent,
  SNSHandler,
  SQSHandler,
} from 'aws-lambda'
import { expectTypeOf } from 'vitest'
import {
  type KafkaBatchResponse,
  type LambdaContext,
  type LambdaHttpGuard,
  lambdaDynamoDbStream,
  lambdaEventBridge,
  lambdaHttp,
  lambdaKafka,
  lambdaKinesis,
  lambdaSns,
  lambdaSqs,
} from './index.ts'

declare const guard: Guard

expectTypeOf<Context>().toExtend<LambdaContext>()
expectTypeOf(lambdaSqs(guard)).toExtend<SQSHandler>()
expectTypeOf(lambdaSns(guard)).toExtend<SNSHandler>()
expectTypeOf(lambdaEventBridge(guard)).toExtend<EventBridgeHandler<string, unknown, void>>()
expectTypeOf(lambdaKafka(guard)).toExtend<Handler<MSKEvent, KafkaBatchResponse | undefined>>()
expectTypeOf(lambdaKafka(guard)).toExtend<
  Handler<SelfManagedKafkaEvent, KafkaBatchResponse | undefined>
>()

expectTypeOf(lambdaKinesis(guard)).toExtend<KinesisStreamHandler>()
expectTypeOf(lambdaDynamoDbStream(guard)).toExtend<DynamoDBStreamHandler>()

declare const route: LambdaHttpGuard
expectTypeOf(lambdaHttp(route)).toExtend<APIGatewayProxyHandlerV2>()
expectTypeOf(lambdaHttp(route)).toExtend<LambdaFunctionURLHandler>()
// Its type asks for three arguments.
expectTypeOf(lambdaHttp(route)).returns.resolves.toExtend<
  Awaited<Exclude<ReturnType<APIGatewayProxyHandler>, void>>
>()

lambdaSqs(guard, { deadLetter: 'redrive', marginMs: 500, partialResponses: true })
// @ts-expect-error the redrive policy is a queue's
lambdaSns(guard, { deadLetter: 'redrive' })
// @ts-expect-error an asynchronous invocation has no partial responses
lambdaSns(guard, { partialResponses: true })
