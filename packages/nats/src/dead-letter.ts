import { ConfigurationError, type Delivery } from '@onceward/core'
import type { DeadLetterPlace } from '@onceward/core/adapter'
import {
  type DeadLetter,
  deadLetterHeaders,
  isDeadLetterHeader,
  type Publish,
} from '@onceward/core/ports'
import type { NatsApi, OutgoingNats } from './client.ts'
import { headerList, MESSAGE_ID, natsMessage } from './delivery.ts'
import { classifyError } from './errors.ts'
import type { NatsDeadLetter, Settings } from './options.ts'

type Headers = OutgoingNats['headers']

/** What a copy cannot have as its own. */
const CARRIED = { id: 'x-onceward-nats-msg-id', subject: 'x-onceward-nats-subject' } as const
const OURS: ReadonlySet<string> = new Set(Object.values(CARRIED))
/** Orders to a stream, such as `Nats-Rollup` and `Nats-Expected-Last-Sequence`: another stream would obey, or refuse. */
const ORDER = /^nats-/i

export function placeOf(
  api: Pick<NatsApi, 'publish' | 'stream'>,
  { deadLetter }: Settings,
): DeadLetterPlace {
  if (deadLetter === undefined) return { kind: 'record' }
  return { kind: 'publish', publish: createPublisher(api, deadLetter) }
}

/** Publishes dead letters; resolves once a stream has stored the message. */
export function createPublisher(
  api: Pick<NatsApi, 'publish' | 'stream'>,
  target: NatsDeadLetter,
): Publish {
  return async (letter) => {
    const subject = await deadLetterSubject(api, target, subjectOf(letter.delivery))
    const message = deadLetterMessage(letter, { subject, stream: target.stream })
    try {
      await api.publish(message)
    } catch (error) {
      if (classifyError(error).kind !== 'too-large') throw error
      // The headers with the reason may not fit, so the message is sent without them.
      await api.publish({ ...message, headers: originalHeaders(letter.delivery) })
    }
  }
}

/** The original message, with the headers that give the reason. */
export function deadLetterMessage(
  letter: DeadLetter,
  { subject, stream }: Pick<OutgoingNats, 'subject' | 'stream'>,
): OutgoingNats {
  const { delivery } = letter
  const id = delivery.messageId
  return {
    ...{ subject, stream, data: delivery.body },
    headers: [
      ...originalHeaders(delivery),
      ...(id === undefined ? [] : [[CARRIED.id, id] as const]),
      [CARRIED.subject, subjectOf(delivery)],
      ...Object.entries(deadLetterHeaders(letter)),
      // A letter whose confirmation was lost is published again. One that died again is another one.
      [MESSAGE_ID, idOf(letter)],
    ],
  }
}

const idOf = ({ consumer, delivery: { source }, lastFailedAt, ref }: DeadLetter): string =>
  [consumer, source.queue, source.position, ref.id, lastFailedAt.getTime()].join('/')

export const subjectOf = (delivery: Delivery): string =>
  natsMessage(delivery)?.subject ?? delivery.source.queue

/** The headers that the producer gave a message, without its id, orders to its stream, and those of an earlier letter. */
export function originalHeaders(delivery: Delivery): Headers {
  const live = natsMessage(delivery)
  const all = live === undefined ? Object.entries(delivery.headers) : headerList(live)
  return all.flatMap(([name, value = '']) => {
    const isOwn = !(isDeadLetterHeader(name) || OURS.has(name.toLowerCase()) || ORDER.test(name))
    return isOwn ? [[name, value] as const] : []
  })
}

/** The subject for the dead letter of a message. @throws {@link ConfigurationError} if the stream has none for it. */
export async function deadLetterSubject(
  api: Pick<NatsApi, 'stream'>,
  { subject, stream = '' }: NatsDeadLetter,
  original: string,
): Promise<string> {
  if (subject !== undefined) return subject
  const { config } = await api.stream(stream)
  const [first = ''] = config.subjects ?? []
  const made = first.endsWith('.>') ? `${first.slice(0, -1)}${original}` : first
  if (made !== '' && !/[*>]/.test(made)) return made
  throw new ConfigurationError(
    `The stream of \`deadLetter.stream\`, ${stream}, has no first subject to which a dead message could be published (${first}). ` +
      'Give `deadLetter.subject`.',
  )
}
