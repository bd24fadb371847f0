import type { DeadLetter } from '../model/dead-letter.ts'

const ERROR_LENGTH = 1_024

/**
 * The standard headers of a published dead letter, the most important first. A broker with room for fewer headers takes
 * them in this order. They say why the message was dead-lettered. The message's own headers, which hold its identity,
 * are kept.
 */
export function deadLetterHeaders(letter: DeadLetter): Readonly<Record<string, string>> {
  const headers = {
    'x-onceward-reason': letter.reason,
    // The same for every copy: a dead letter that was published twice can be told by it.
    'x-onceward-event-id': letter.ref.id,
    'x-onceward-consumer': letter.consumer,
    'x-onceward-error': letter.error?.slice(0, ERROR_LENGTH).toWellFormed(),
    'x-onceward-attempts': String(letter.attempts),
    'x-onceward-key': letter.key,
    'x-onceward-origin': originOf(letter),
    'x-onceward-last-at': letter.lastFailedAt.toISOString(),
    'x-onceward-first-at': letter.firstFailedAt.toISOString(),
  }
  const present = Object.entries(headers).filter(([, value]) => value !== undefined && value !== '')
  return Object.fromEntries(present) as Readonly<Record<string, string>>
}

/** On Kafka `orders/2/41`: topic, partition, offset. */
function originOf({ delivery }: DeadLetter): string {
  const { position, queue } = delivery.source
  return position === undefined ? queue : `${queue}/${position}`
}
