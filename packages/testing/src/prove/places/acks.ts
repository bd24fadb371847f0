import { amqpMethod, kafkaRequest, sqsAction, type WordMatcher } from '../../wire/words.ts'
import type { ProveBroker } from '../proof.ts'

const OFFSET_COMMIT = 8
/** An adapter acknowledges by a script that has the id of the entry. */
const ENTRY_ID = /\r\n\d{13}-\d+\r\n/

const ACKS: Readonly<Record<ProveBroker, WordMatcher>> = {
  sqs: sqsAction('DeleteMessage'),
  kafka: kafkaRequest(OFFSET_COMMIT),
  amqp: amqpMethod(60, 80),
  'redis-streams': (chunk) =>
    chunk.includes('XACK') ||
    (/evalsha/i.test(chunk.toString('latin1')) && ENTRY_ID.test(chunk.toString('latin1'))),
  nats: (chunk) => chunk.includes('+ACK'),
}

/** How a client of this broker acknowledges. */
export const acksOf = (broker: ProveBroker): WordMatcher => ACKS[broker]
