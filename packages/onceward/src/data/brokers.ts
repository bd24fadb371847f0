import { ConfigurationError } from '@onceward/core'
import {
  messageOf,
  type OperateBroker,
  type OperatedBroker,
  withTimeout,
} from '@onceward/core/adapter'
import { systemRuntime } from '@onceward/core/ports'
import { Failure, usage } from '../failure.ts'
import type { BrokerName, NamedBroker } from './broker-address.ts'

interface Adapter {
  /** The adapters are optional: only who names a broker needs one. */
  readonly load: () => Promise<{ readonly operate: OperateBroker }>
  readonly packages: string
}

const ADAPTERS: Readonly<Record<BrokerName, Adapter>> = {
  kafka: {
    load: () => import('@onceward/kafka/operator'),
    packages: '@onceward/kafka kafkajs',
  },
  sqs: {
    load: () => import('@onceward/sqs/operator'),
    packages: '@onceward/sqs @aws-sdk/client-sqs',
  },
  amqp: {
    load: () => import('@onceward/amqp/operator'),
    packages: '@onceward/amqp amqplib',
  },
  'redis-streams': {
    load: () => import('@onceward/redis-streams/operator'),
    packages: '@onceward/redis-streams ioredis',
  },
  nats: {
    load: () => import('@onceward/nats/operator'),
    packages: '@onceward/nats @nats-io/transport-node',
  },
}

/** A broker that silently keeps an operator waiting is given up. */
const ANSWER_MS = 15_000
const CLOSE_MS = 2_000

/** A broker, opened. Each call has a time limit. */
export interface OpenBroker extends AsyncDisposable {
  readonly named: NamedBroker
  readonly broker: OperatedBroker
  /** @throws {@link Failure} that names the broker, when it cannot be asked. */
  ask<Answer>(question: (broker: OperatedBroker) => Promise<Answer>): Promise<Answer>
}

/** Loads the adapter. @throws {@link Failure} that says what to install, or what is wrong with the address. */
export async function openBroker(named: NamedBroker): Promise<OpenBroker> {
  const { load, packages } = ADAPTERS[named.name]
  const { operate } = await load().catch((error: unknown) => {
    if (!isMissing(error)) throw error
    throw new Failure(
      `${named.title} needs packages that are not installed beside onceward. Run \`npm install ${packages}\`.`,
      undefined,
      { cause: error },
    )
  })
  const { url, params } = named
  const broker = refusedAsUsage(() => operate({ url, params, env: process.env }))
  return {
    ...{ named, broker },
    ask: (question) => asked(named, broker, question),
    [Symbol.asyncDispose]: async () => {
      const closing = Promise.resolve(broker[Symbol.asyncDispose]())
      const limits = { call: 'close', budgetMs: CLOSE_MS }
      await withTimeout(systemRuntime, closing, limits).catch(() => undefined)
    },
  }
}

async function asked<Answer>(
  { title }: NamedBroker,
  broker: OperatedBroker,
  question: (broker: OperatedBroker) => Promise<Answer>,
): Promise<Answer> {
  try {
    const limits = { call: title, budgetMs: ANSWER_MS }
    return await withTimeout(systemRuntime, question(broker), limits)
  } catch (error) {
    if (error instanceof ConfigurationError) throw usage(error.message)
    const text = `No answer from ${title} at ${broker.place}: ${messageOf(error)}`
    throw new Failure(text, undefined, { cause: error })
  }
}

function refusedAsUsage<Value>(make: () => Value): Value {
  try {
    return make()
  } catch (error) {
    throw error instanceof ConfigurationError ? usage(error.message) : error
  }
}

const isMissing = (error: unknown): boolean =>
  error instanceof Error && Reflect.get(error, 'code') === 'ERR_MODULE_NOT_FOUND'
