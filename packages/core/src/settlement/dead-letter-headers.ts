import type { DeadLetter } from '../model/dead-letter.ts'
import { ITEM_HEADER } from './item-mark.ts'

const ERROR_LENGTH = 1_024

const HEADERS = {
  // Without it, an item that is put back on its queue would be split as if it were the whole message.
  [ITEM_HEADER]: ({ itemMark }) => itemMark,
  'x-onceward-reason': ({ reason }) => reason,
  // The same for every copy: it shows that a dead letter was published twice.
  'x-onceward-event-id': ({ ref }) => ref.id,
  'x-onceward-consumer': ({ consumer }) => consumer,
  'x-onceward-error': ({ error }) => error?.slice(0, ERROR_LENGTH).toWellFormed(),
  'x-onceward-attempts': ({ attempts }) => String(attempts),
  'x-onceward-key': ({ key }) => key,
  'x-onceward-origin': originOf,
  'x-onceward-last-at': ({ lastFailedAt }) => lastFailedAt.toISOString(),
  'x-onceward-first-at': ({ firstFailedAt }) => firstFailedAt.toISOString(),
} as const satisfies Readonly<Record<string, (letter: DeadLetter) => string | undefined>>

/**
 * The standard headers of a published dead letter, the most important first. A broker with room for fewer headers takes
 * them in this order. They say why the message was dead-lettered. The message's own headers, which hold its identity,
 * are kept.
 */
export function deadLetterHeaders(letter: DeadLetter): Readonly<Record<string, string>> {
  const headers = Object.entries(HEADERS).map(([name, toValue]) => [name, toValue(letter)] as const)
  const present = headers.filter(([, value]) => value !== undefined && value !== '')
  return Object.fromEntries(present) as Readonly<Record<string, string>>
}

/**
 * Whether a header of this name is one of {@link deadLetterHeaders}. On a message it is from an earlier dead letter or from
 * somebody who copied it, and a new dead letter replaces it. All other headers of the message are kept.
 */
export function isDeadLetterHeader(name: string): boolean {
  return Object.hasOwn(HEADERS, name.toLowerCase())
}

/** On Kafka `orders/2/41`: topic, partition, offset. */
function originOf({ delivery }: DeadLetter): string {
  const { position, queue } = delivery.source
  return position === undefined ? queue : `${queue}/${position}`
}
