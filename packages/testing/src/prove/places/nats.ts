import { readFileSync } from 'node:fs'
import {
  type ConnectionOptions,
  connect,
  credsAuthenticator,
  headers,
  type NatsConnection,
} from '@nats-io/transport-node'
import type { Place, PlaceMessage } from './place.ts'

/** The `ack_wait`. Short, so that messages of a dead process come back soon. */
const ACK_WAIT_MS = 2_000
const DAY_MS = 86_400_000
const NANOS = 1_000_000

/**
 * A new stream with a pull consumer, as the documents say. The adapter creates neither. The calls of JetStream are its
 * documented requests, so that no other package of the client is needed.
 */
export async function natsPlace(url: string, name: string): Promise<Place<'nats'>> {
  const connection = await connect(optionsOf(url))
  const dead = `${name}-dead`
  const where = { stream: name, consumer: name, deadLetterSubject: `${dead}.events` }
  const close = async (): Promise<void> => {
    const removing = [name, dead].map((stream) => call(connection, `STREAM.DELETE.${stream}`))
    await Promise.allSettled(removing)
    await connection.close()
  }
  try {
    await createStream(connection, dead)
    await createStream(connection, name)
    const config = {
      ...{ durable_name: name, ack_policy: 'explicit', deliver_policy: 'all' },
      ...{ ack_wait: ACK_WAIT_MS * NANOS, max_deliver: -1 },
    }
    await call(connection, `CONSUMER.DURABLE.CREATE.${name}.${name}`, {
      stream_name: name,
      config,
    })
  } catch (error) {
    await close()
    throw error
  }
  return {
    where,
    variables: {
      ...{ NATS_URL: url, STREAM: name, CONSUMER: name },
      DEAD_LETTER_SUBJECT: where.deadLetterSubject,
    },
    send: async (messages) => {
      await Promise.all(messages.map((message) => send(connection, `${name}.events`, message)))
    },
    waiting: async () => {
      const info = await call<ConsumerInfo>(connection, `CONSUMER.INFO.${name}.${name}`)
      return info.num_pending + info.num_ack_pending
    },
    dead: async () => (await call<StreamInfo>(connection, `STREAM.INFO.${dead}`)).state.messages,
    [Symbol.asyncDispose]: close,
  }
}

/** The client reads no user and password in a URL. `NATS_CREDS` names a file of credentials, as for the command line. */
function optionsOf(url: string): ConnectionOptions {
  const { host, password, protocol, username } = new URL(url)
  const [user, pass] = [username, password].map(decodeURIComponent)
  const file = process.env['NATS_CREDS']
  return {
    ...{ servers: host, name: 'onceward-prove' },
    ...(protocol === 'tls:' ? { tls: {} } : {}),
    ...(username !== '' && password === '' ? { token: user } : {}),
    ...(password === '' ? {} : { user, pass }),
    ...(file === undefined ? {} : { authenticator: credsAuthenticator(readFileSync(file)) }),
  }
}

interface ConsumerInfo {
  readonly num_pending: number
  readonly num_ack_pending: number
}

interface StreamInfo {
  readonly state: { readonly messages: number }
}

const createStream = (connection: NatsConnection, name: string): Promise<unknown> =>
  call(connection, `STREAM.CREATE.${name}`, {
    ...{ name, subjects: [`${name}.>`], retention: 'limits', storage: 'file' },
    ...{ num_replicas: 1, max_age: DAY_MS * NANOS },
  })

/** Resolves when the stream has it. */
async function send(
  connection: NatsConnection,
  subject: string,
  message: PlaceMessage,
): Promise<void> {
  const named = headers()
  for (const [header, value] of Object.entries(message.headers)) named.set(header, value)
  const answer = await connection.request(subject, message.body, { ...LIMITS, headers: named })
  errorIn(answer.json(), subject)
}

const LIMITS = { timeout: 10_000 }

/** @throws what JetStream answers, such as that subjects overlap with those of another stream. */
async function call<Answer>(
  connection: NatsConnection,
  subject: string,
  body?: object,
): Promise<Answer> {
  const payload = body === undefined ? undefined : JSON.stringify(body)
  const answer = await connection.request(`$JS.API.${subject}`, payload, LIMITS)
  return errorIn(answer.json(), subject) as Answer
}

function errorIn(answer: { readonly error?: { readonly description?: string } }, subject: string) {
  if (answer.error === undefined) return answer
  throw new Error(`NATS refused ${subject}: ${answer.error.description ?? 'no reason given'}`)
}
