/*
 * What the benchmark calls of its rivals: they are installed when it first runs, and the checks must not depend on
 * that. A module declared here goes before what is installed.
 */

declare module '@message-queue-toolkit/core' {
  export class MessageHandlerConfigBuilder<Message, Context> {
    addConfig(
      schema: unknown,
      handler: (message: Message, context: Context) => Promise<{ readonly result: 'success' }>,
    ): this
    build(): readonly unknown[]
  }
}

declare module '@message-queue-toolkit/sqs' {
  import type { SQSClient } from '@aws-sdk/client-sqs'

  export class AbstractSqsConsumer<Context> {
    constructor(
      dependencies: {
        readonly sqsClient: Pick<SQSClient, 'send'>
        readonly logger: unknown
        readonly errorReporter: { report(error: unknown): void }
        readonly consumerErrorResolver: { processError(error: unknown): unknown }
      },
      options: Readonly<Record<string, unknown>>,
      context: Context,
    )
    start(): Promise<void>
    close(abort: boolean): Promise<void>
  }
}

declare module '@message-queue-toolkit/redis-message-deduplication-store' {
  export class RedisMessageDeduplicationStore {
    constructor(dependencies: { readonly redis: unknown })
  }
}

declare module '@aws-lambda-powertools/idempotency' {
  export class IdempotencyConfig {
    constructor(options: {
      readonly eventKeyJmesPath: string
      readonly throwOnNoIdempotencyKey: boolean
      readonly expiresAfterSeconds: number
    })
    registerLambdaContext(context: { getRemainingTimeInMillis(): number }): void
  }
  export function makeIdempotent<Input, Result>(
    work: (input: Input) => Promise<Result>,
    options: {
      readonly persistenceStore: unknown
      readonly config: IdempotencyConfig
      readonly keyPrefix: string
    },
  ): (input: Input) => Promise<Result>
}

declare module '@aws-lambda-powertools/idempotency/cache' {
  export class CachePersistenceLayer {
    constructor(options: { readonly client: unknown })
  }
}

declare module 'pg-transactional-outbox' {
  import type { PoolClient, PoolConfig } from 'pg'

  interface TransactionalMessage {
    readonly id: string
    readonly aggregateType: string
    readonly aggregateId: string
    readonly messageType: string
    readonly concurrency?: 'sequential' | 'parallel'
    readonly payload: unknown
  }
  interface PollingListenerConfig {
    readonly outboxOrInbox: 'inbox'
    readonly dbHandlerConfig: PoolConfig
    readonly dbListenerConfig: PoolConfig
    readonly settings: Readonly<Record<string, unknown>>
  }
  export const DatabaseSetupExporter: {
    createPollingScript(config: Readonly<Record<string, string>>, skipRoles: boolean): string
  }
  export const IsolationLevel: { readonly ReadCommitted: string }
  export function executeTransaction<Result>(
    client: PoolClient,
    work: (client: PoolClient) => Promise<Result>,
    isolation: string,
  ): Promise<Result>
  export function getDisabledLogger(): unknown
  export function initializeMessageStorage(
    config: Pick<PollingListenerConfig, 'outboxOrInbox' | 'settings'>,
    logger: unknown,
  ): (message: TransactionalMessage, client: PoolClient) => Promise<void>
  export function initializePollingMessageListener(
    config: PollingListenerConfig,
    handlers: readonly {
      readonly aggregateType: string
      readonly messageType: string
      handle(message: TransactionalMessage, client: PoolClient): Promise<void>
    }[],
    logger: unknown,
  ): [shutdown: () => Promise<void>]
}

declare module 'vega-lite' {
  export function compile(spec: Readonly<Record<string, unknown>>): { readonly spec: object }
}

declare module 'vega' {
  export function parse(spec: object): object
  export class View {
    constructor(runtime: object, options: { readonly renderer: 'none' })
    toSVG(): Promise<string>
  }
}

declare module 'express-idempotency' {
  import type { Request, RequestHandler } from 'express'

  export function idempotency(): RequestHandler
  export function getSharedIdempotencyService(): { isHit(request: Request): boolean }
}

declare module '@node-idempotency/core' {
  interface Asked {
    readonly method: string
    readonly path: string
    readonly headers: object
    readonly body: unknown
  }
  export class Idempotency {
    constructor(storage: unknown, options: Readonly<Record<string, unknown>>)
    onRequest(asked: Asked): Promise<{ readonly body: unknown } | undefined>
    onResponse(asked: Asked, response: { readonly body: unknown }): Promise<void>
  }
}

declare module '@node-idempotency/storage-adapter-redis' {
  export class RedisStorageAdapter {
    constructor(options: { readonly url: string })
    connect(): Promise<void>
  }
}
