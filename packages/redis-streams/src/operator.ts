import { ConfigurationError } from '@onceward/core'
import {
  findingsOf,
  type GuardSettings,
  OPERATOR_CALL_MS,
  type OperateBroker,
  refusalOf,
  refuseParameters,
} from '@onceward/core/adapter'
import { systemRuntime } from '@onceward/core/ports'
import { Redis } from 'ioredis'
import type { StreamApi } from './client.ts'
import { connectionOf } from './clients/connection.ts'
import { createStreamApi } from './clients/stream-api.ts'
import { originalFields } from './dead-letter.ts'
import { examine } from './doctor.ts'
import { classifyError } from './errors.ts'
import { DEFAULTS, resolveSettings } from './options.ts'

// The adapter as the command line uses it. Not for users.

const PARAMETERS = ['stream', 'group', 'dead-letter', 'keep-entries', 'body-field']

/** Reads `redis://host:6379?stream=orders`. TLS, user, password and database are as in any URL of Redis. */
export const operate: OperateBroker = ({ url, params }) => {
  refuseParameters(params, PARAMETERS)
  if (!(/^rediss?:/.test(url) && URL.canParse(url))) {
    throw new ConfigurationError('Expected redis://host:6379?stream=orders.')
  }
  const redis = new Redis(url, {
    ...{ lazyConnect: true, connectTimeout: OPERATOR_CALL_MS, commandTimeout: OPERATOR_CALL_MS },
    ...{ maxRetriesPerRequest: 1, retryStrategy: () => null },
  })
  redis.on('error', () => undefined)
  const stream = params.get('stream') ?? undefined
  const apiFor = (settings: Parameters<typeof createStreamApi>[1]): StreamApi =>
    createStreamApi(connectionOf('consumeStream', redis), settings, systemRuntime)
  const bare = (name: string): StreamApi =>
    apiFor({
      ...{
        streams: [name],
        group: '',
        consumer: '',
        consumerName: '',
        claimIdleMs: 1_000,
        keepEntries: true,
      },
    })
  return {
    place: new URL(url).host,
    inspect: (guard) => inspect(apiFor, params, guard),
    owns: ({ broker, queue }) =>
      broker === 'redis-streams' && (stream === undefined || stream === queue),
    ready: async ({ queue }) => {
      const { stream: found } = await bare(queue).facts(queue)
      if (found === undefined) throw streamMissing(queue)
    },
    send: async (delivery) => {
      const { queue } = delivery.source
      const fields = originalFields(delivery, params.get('body-field') ?? DEFAULTS.bodyField)
      await bare(queue).add(queue, fields).catch(rethrow)
    },
    [Symbol.asyncDispose]: async () => redis.disconnect(),
  }
}

function inspect(
  apiFor: (settings: Parameters<typeof createStreamApi>[1]) => StreamApi,
  params: URLSearchParams,
  guard: GuardSettings,
) {
  const stream = params.get('stream')
  const dead = params.get('dead-letter')
  return findingsOf(async (logger) => {
    if (stream === null) {
      throw new ConfigurationError('Expected the parameter `stream`, such as ?stream=orders.')
    }
    const options = {
      stream,
      group: params.get('group') ?? undefined,
      deadLetter: dead === null ? undefined : { stream: dead },
      keepEntries: params.has('keep-entries') ? params.get('keep-entries') !== 'false' : undefined,
    }
    const settings = resolveSettings(options, guard)
    await examine({
      api: apiFor(settings),
      settings,
      guard,
      logger,
      nowMs: systemRuntime.now(),
      hadGroup: false,
    })
  })
}

const streamMissing = (stream: string): ConfigurationError =>
  new ConfigurationError(
    `There is no stream ${stream} on this server. Correct the address, or add an entry first.`,
  )

/** After these the entry is not in the stream. */
const rethrow = refusalOf(classifyError, ['denied', 'unready', 'unfit'])
