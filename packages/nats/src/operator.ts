import { readFileSync } from 'node:fs'
import {
  type ConnectionOptions,
  connect,
  credsAuthenticator,
  type NatsConnection,
} from '@nats-io/transport-node'
import { ConfigurationError, type Delivery } from '@onceward/core'
import {
  findingsOf,
  type GuardSettings,
  notSent,
  OPERATOR_CALL_MS,
  type OperateBroker,
  refusalOf,
  refuseParameters,
} from '@onceward/core/adapter'
import { systemRuntime } from '@onceward/core/ports'
import type { NatsApi } from './client.ts'
import { createNatsApi } from './clients/nats-api.ts'
import { originalHeaders, subjectOf } from './dead-letter.ts'
import { MESSAGE_ID } from './delivery.ts'
import { examine } from './doctor.ts'
import { classifyError, streamMissing } from './errors.ts'
import { resolveSettings } from './options.ts'

// The adapter as the command line uses it. Not for users.

const PARAMETERS = ['stream', 'consumer-name', 'dead-letter', 'domain']

/** Reads `nats://host:4222?stream=ORDERS`. `NATS_CREDS` names a file of credentials. */
export const operate: OperateBroker = ({ url, params, env }) => {
  refuseParameters(params, PARAMETERS)
  if (!(/^(?:nats|tls):\/\/[^/]/.test(url) && URL.canParse(url))) {
    throw new ConfigurationError('Expected nats://host:4222?stream=ORDERS.')
  }
  const stream = params.get('stream') ?? undefined
  let connection: Promise<NatsConnection> | undefined
  const opened: NatsApi[] = []
  const apiOf = async (name: string, consumer: string): Promise<NatsApi> => {
    connection ??= connect(connectionOptions(url, env))
    const domain = params.get('domain') ?? undefined
    const api = createNatsApi(await connection, { stream: name, consumer, domain }, systemRuntime)
    opened.push(api)
    return api
  }
  return {
    place: new URL(url).host,
    inspect: (guard) => inspect(apiOf, params, guard),
    owns: ({ broker, queue }) => broker === 'nats' && (stream === undefined || stream === queue),
    ready: async ({ queue }) => {
      const api = await apiOf(queue, '')
      await api.stream(queue).catch((error: unknown) => {
        throw classifyError(error).kind === 'missing' ? streamMissing('--broker', queue) : error
      })
    },
    send: async (delivery) => send(await apiOf(delivery.source.queue, ''), delivery),
    [Symbol.asyncDispose]: async () => {
      for (const api of opened) api.close()
      await (await connection?.catch(() => undefined))?.close()
    },
  }
}

/** The client reads no user and password in a URL. A user alone is a token. */
function connectionOptions(
  url: string,
  { NATS_CREDS: credentials }: Readonly<Record<string, string | undefined>>,
): ConnectionOptions {
  const { username, password, host, protocol } = new URL(url)
  const user = decodeURIComponent(username)
  return {
    ...{ servers: host, reconnect: false, timeout: OPERATOR_CALL_MS, name: 'onceward' },
    ...(protocol === 'tls:' ? { tls: {} } : {}),
    ...(username !== '' && password === '' ? { token: user } : {}),
    ...(password === '' ? {} : { user, pass: decodeURIComponent(password) }),
    ...(credentials === undefined
      ? {}
      : { authenticator: credsAuthenticator(readFileSync(credentials)) }),
  }
}

function inspect(
  apiOf: (stream: string, consumer: string) => Promise<NatsApi>,
  params: URLSearchParams,
  guard: GuardSettings,
) {
  const stream = params.get('stream')
  const subject = params.get('dead-letter') ?? undefined
  return findingsOf(async (logger) => {
    if (stream === null) {
      throw new ConfigurationError('Expected the parameter `stream`, such as ?stream=ORDERS.')
    }
    const consumer = params.get('consumer-name') ?? undefined
    const deadLetter = subject === undefined ? undefined : { subject }
    const settings = resolveSettings({ stream, consumer, deadLetter }, guard)
    const api = await apiOf(stream, settings.consumer)
    // How often the connection of the consumer comes back is not known here.
    const asked = { ...api, mostReconnects: undefined }
    await examine({ api: asked, settings, guard, logger, hadConsumer: false })
  })
}

/** After these the message is not in the stream. */
const rethrow = refusalOf(classifyError, ['too-large', 'missing', 'denied', 'unready'])

async function send(api: NatsApi, delivery: Delivery): Promise<void> {
  const { queue: stream } = delivery.source
  const id = delivery.messageId
  const headers = [
    ...originalHeaders(delivery),
    ...(id === undefined ? [] : [[MESSAGE_ID, id] as const]),
  ]
  const message = { subject: subjectOf(delivery), stream, data: delivery.body, headers }
  const isTaken = await api.publish(message).catch(rethrow)
  if (!isTaken) throw notSent(DUPLICATE, undefined)
}

const DUPLICATE =
  'the stream has had a message with its Nats-Msg-Id within duplicate_window; try again when that is over'
