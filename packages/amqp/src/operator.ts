import querystring from 'node:querystring'
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
import { connect, credentials } from 'amqplib'
import { checkThere } from './clients/calls.ts'
import { Connector } from './clients/connector.ts'
import { Publisher } from './clients/publisher.ts'
import { originalMessage } from './dead-letter.ts'
import { inspect } from './doctor.ts'
import { classifyError, PublishError, queueMissing } from './errors.ts'
import { resolveSettings } from './options.ts'

// The adapter as the command line uses it. Not for users.

const OURS = ['queue', 'dead-letter', 'policy']
/** Parameters of amqplib's own URLs. */
const OF_AMQPLIB = ['heartbeat', 'frameMax', 'channelMax', 'locale']
const EXAMPLE = 'amqp://user@host:5672/vhost?queue=orders'

const ignore = (): void => undefined

/**
 * Reads a URL of AMQP 0-9-1, `amqps://` for TLS. A user or password that is not in it comes from `AMQP_USERNAME` and
 * `AMQP_PASSWORD`.
 */
export const operate: OperateBroker = ({ url, params, env }) => {
  refuseParameters(params, [...OURS, ...OF_AMQPLIB])
  if (!URL.canParse(url) || new URL(url).host === '') {
    throw new ConfigurationError(`Expected the address of RabbitMQ to be like ${EXAMPLE}.`)
  }
  const server = new URL(url)
  const { host, pathname } = server
  // amqplib ignores the parameters that are ours.
  server.search = String(params)
  const user = unescaped(server.username) || env['AMQP_USERNAME'] || ''
  const password = unescaped(server.password) || env['AMQP_PASSWORD'] || ''
  // Not by the URL: amqplib reads each escaped byte as a character. Without credentials amqplib logs in as guest.
  const login = user || password ? { credentials: credentials.plain(user, password) } : {}
  const connector = new Connector({
    source: () => connect(server.href, { timeout: OPERATOR_CALL_MS, ...login }),
    ...{ runtime: systemRuntime, onGone: ignore, onError: ignore },
    onBlocked: (reason) => {
      publisher.blocked = reason
    },
  })
  const publisher = new Publisher({
    open: () => connector.openChannel(),
    ...{ runtime: systemRuntime, onError: ignore },
  })
  const named = params.get('queue')
  // As amqplib reads it.
  const virtualHost = querystring.unescape(pathname.slice(1)) || '/'
  return {
    place: `${host}${pathname}`,
    inspect: (guard) => inspectQueue(connector, params, guard),
    owns: ({ broker, queue, namespace = virtualHost }) =>
      broker === 'amqp' && (named ?? queue) === queue && namespace === virtualHost,
    ready: ({ queue }) => ready(connector, queue),
    send: (delivery) => send(publisher, delivery),
    [Symbol.asyncDispose]: async () => {
      await publisher.close()
      await connector.close()
    },
  }
}

/** Reads escapes of UTF-8. Other escapes are read as amqplib reads them, because they work in a consumer's URL. */
function unescaped(text: string): string {
  try {
    return decodeURIComponent(text)
  } catch {
    return unescape(text)
  }
}

async function inspectQueue(connector: Connector, params: URLSearchParams, guard: GuardSettings) {
  const [queue, dead] = [params.get('queue'), params.get('dead-letter')]
  if (queue === null) {
    throw new ConfigurationError(`Which queue? Add it to the address: ${EXAMPLE}.`)
  }
  const deadLetter = dead === null || dead === 'dlx' ? (dead ?? undefined) : { queue: dead }
  return findingsOf(async (logger) => {
    const deadLetterPolicy = params.has('policy')
    const settings = resolveSettings({ queue, deadLetter, deadLetterPolicy }, guard)
    await inspect({ connection: await connector.open(), settings, logger })
  })
}

async function ready(connector: Connector, queue: string): Promise<void> {
  const connection = await connector.open()
  const open = () => connection.createChannel()
  const missing = () => queueMissing('--broker', queue)
  await checkThere(open, (channel) => channel.checkQueue(queue), missing)
}

/** After these the message is in no queue. */
const rethrow = refusalOf(classifyError, ['denied', 'missing'])

async function send(publisher: Publisher, delivery: Delivery): Promise<void> {
  const { queue } = delivery.source
  const message = { ...originalMessage(delivery), exchange: '', routingKey: queue }
  const remedy = `declare the queue '${queue}'`
  try {
    await publisher.publish({ kind: 'dead-letter', of: {}, ...message, remedy, isBare: true })
  } catch (error) {
    if (error instanceof PublishError) throw notSent(classifyError(error).text, error)
    rethrow(error)
  }
}
