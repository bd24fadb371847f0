import type { Guard } from '@onceward/core'
import type {
  Context,
  EventBridgeHandler,
  Handler,
  MSKEvent,
  SelfManagedKafkaEvent,
  SNSHandler,
  SQSHandler,
} from 'aws-lambda'
import { expectTypeOf } from 'vitest'
import {
  type KafkaBatchResponse,
  type LambdaContext,
  lambdaEventBridge,
  lambdaKafka,
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

lambdaSqs(guard, { deadLetter: 'redrive', marginMs: 500, partialResponses: true })
// @ts-expect-error the redrive policy is a queue's
lambdaSns(guard, { deadLetter: 'redrive' })
// @ts-expect-error an asynchronous invocation has no partial responses
lambdaSns(guard, { partialResponses: true })
