import { headers as createHeaders, type MsgHdrs } from '@nats-io/transport-node'
import { withTimeout } from '@onceward/core/adapter'
import type { Runtime } from '@onceward/core/ports'
import type { NatsApi, NatsClient, OutgoingNats } from '../client.ts'
import { connectionClosed, DisconnectedError, JetStreamError } from '../errors.ts'
import type { NatsOptions } from '../options.ts'
import { ConnectionWatch, optionsOf } from './connection.ts'
import { Pulls } from './pulls.ts'

const CALL_MS = 5_000
/** A message is published together with what tells that the server has it, so it pays to wait for others. */
const CONFIRM_WINDOW_MS = 5

interface Answer {
  readonly error?: {
    readonly description?: string
    readonly err_code?: number
    readonly code?: number
  }
}

/**
 * Calls of the API of JetStream. They are requests whose answers are JSON, so no version of @nats-io/jetstream stands
 * between.
 *
 * @see https://docs.nats.io/reference/reference-protocols/nats_api_reference
 */
export function createNatsApi(
  client: NatsClient,
  { stream, consumer, domain }: Pick<NatsOptions, 'stream' | 'consumer' | 'domain'>,
  runtime: Runtime,
): NatsApi {
  const prefix = apiPrefix(domain)
  const pulls = new Pulls(client, runtime, `${prefix}.CONSUMER.MSG.NEXT.${stream}.${consumer}`)
  const watch = new ConnectionWatch(client, runtime)
  watch.onInterrupted = () => pulls.interrupt(new DisconnectedError())
  watch.onError = (error) => pulls.refused(error)
  const needUp = (): void => {
    if (client.isClosed()) throw connectionClosed()
    if (!watch.isUp) throw new DisconnectedError()
  }
  const ask = async <Facts>(name: string, body: object = {}): Promise<Facts> => {
    needUp()
    return answerOf<Facts>(
      client.request(`${prefix}.${name}`, JSON.stringify(body), { timeout: CALL_MS }),
    )
  }
  return {
    mostReconnects: optionsOf(client).maxReconnectAttempts,
    connected: (withinMs) => watch.up(withinMs),
    pull: async (request) => {
      needUp()
      return pulls.pull(request)
    },
    say: (reply, verb) => {
      needUp()
      client.publish(reply, verb)
    },
    confirm: confirmations(client, runtime),
    stream: (name) => ask(`STREAM.INFO.${name}`),
    consumer: (ofStream, name) => ask(`CONSUMER.INFO.${ofStream}.${name}`),
    streamOf: async (subject) => {
      const { streams } = await ask<{ streams?: readonly string[] | null }>('STREAM.NAMES', {
        subject,
      })
      return streams?.[0]
    },
    publish: async (message) => {
      needUp()
      return publish(client, message)
    },
    close: () => {
      watch.stop()
      pulls.close()
    },
  }
}

export const apiPrefix = (domain: string | undefined): string =>
  domain === undefined ? '$JS.API' : `$JS.${domain}.API`

/** Resolves when a stream has the message. Answers false if it had one with this `Nats-Msg-Id` already. */
export async function publish(
  client: NatsClient,
  { subject, data, headers, stream }: OutgoingNats,
  timeout: number = CALL_MS,
): Promise<boolean> {
  const made = headersOf(headers)
  if (stream !== undefined) made.set('Nats-Expected-Stream', stream)
  const sent = client.request(subject, data, { headers: made, timeout })
  const ack = await answerOf<{ seq?: number; duplicate?: boolean }>(sent)
  // Somebody else may listen to the subject and answer.
  if (ack.seq === undefined) throw new Error(NO_STREAM)
  return ack.duplicate !== true
}

const NO_STREAM = 'the message was answered, but not by a stream'

async function answerOf<Facts>(request: Promise<{ json<T>(): T }>): Promise<Facts> {
  const answer = (await request).json<Answer & Facts>()
  const { error } = Object(answer) as Answer
  if (error === undefined) return answer
  const { description = 'refused', err_code: number, code = 0 } = error
  throw new JetStreamError(description, number ?? code)
}

/** What is no header of NATS: its names are ASCII, and its values have no line breaks. */
const IN_NAME = /[^\x21-\x39\x3b-\x7e]/g
const IN_VALUE = /[\r\n]+/g

export function headersOf(named: OutgoingNats['headers']): MsgHdrs {
  const made = createHeaders()
  for (const [name, value] of named) {
    made.append(name.replaceAll(IN_NAME, '_'), value.replaceAll(IN_VALUE, ' '))
  }
  return made
}

/** Everything that is said within the window is confirmed by one PING, which the server answers after it has read it. */
function confirmations(client: NatsClient, runtime: Runtime): () => Promise<void> {
  let next: Promise<void> | undefined
  return () => {
    next ??= new Promise<void>((resolve) => {
      runtime.setTimer(() => {
        next = undefined
        resolve(withTimeout(runtime, client.flush(), { call: 'PING', budgetMs: CALL_MS }))
      }, CONFIRM_WINDOW_MS)
    })
    return next
  }
}
