import type { ErrorCode } from '../packages/core/src/model/errors.ts'
import { code, table } from './docs-table.ts'

interface ErrorDoc {
  readonly name: string
  readonly when: string
  readonly remedy: string
}

const ERRORS: Readonly<Record<ErrorCode, ErrorDoc>> = {
  ONCEWARD_RETRYABLE: {
    name: 'RetryableError',
    when: 'Thrown by your handler: the event is retried later, after `afterMs` if given. Any other error means the same.',
    remedy: 'Nothing. After `retry.attempts` runs the event is dead-lettered.',
  },
  ONCEWARD_FATAL: {
    name: 'FatalError',
    when: 'Thrown by your handler: this event can never succeed.',
    remedy: 'The event is dead-lettered at once. Fix the cause, then replay the event.',
  },
  ONCEWARD_INVALID_PAYLOAD: {
    name: 'InvalidPayloadError',
    when: 'The body cannot be decoded or does not match the schema, or the key is invalid (empty, too long, not well-formed).',
    remedy: 'The message is dead-lettered. Fix the producer, or fix the schema and replay.',
  },
  ONCEWARD_MISSING_KEY: {
    name: 'MissingKeyError',
    when: 'No resolver found an event key, or the tenant is missing.',
    remedy: 'Set `eventKey` to where your producer puts the identity, then replay.',
  },
  ONCEWARD_UNKNOWN_TYPE: {
    name: 'UnknownTypeError',
    when: 'A guard with `on` has no handler for the type of the message, or the message has none.',
    remedy:
      'The message is dead-lettered. Deploy a version with a handler for the type, then replay. Or set `unknown`.',
  },
  ONCEWARD_CONFLICT: {
    name: 'ConflictError',
    when: 'The event key was used before with another payload.',
    remedy:
      'Compare the payloads: the key resolver is too coarse, or the producer uses a key twice. `fingerprint` can leave fields out.',
  },
  ONCEWARD_IN_PROGRESS: {
    name: 'InProgressError',
    when: 'Thrown by `once`: another call with the key is running, or an event with the key waits for its retry.',
    remedy: 'Call again after `afterMs` with the same key, or leave the work to the other call.',
  },
  ONCEWARD_LEASE_LOST: {
    name: 'LeaseLostError',
    when: 'Another owner may have taken the event over while the handler ran.',
    remedy:
      'Nothing: the transaction, if there is one, was rolled back. If it happens often, raise `leaseMs` or look for a blocked event loop.',
  },
  ONCEWARD_DEADLINE_EXCEEDED: {
    name: 'DeadlineExceededError',
    when: 'The handler ran longer than `deadlineMs`, or a drain ran out of time.',
    remedy:
      'The transaction, if there is one, was rolled back. Pass `signal` to slow calls in the handler, or raise `deadlineMs`.',
  },
  ONCEWARD_COMMIT_UNKNOWN: {
    name: 'CommitUnknownError',
    when: 'The connection ended after `COMMIT` was sent and before the answer arrived.',
    remedy: 'Nothing: the guard looks the event up again. If that fails, the redelivery finds it.',
  },
  ONCEWARD_STORE_UNAVAILABLE: {
    name: 'StoreUnavailableError',
    when: 'Postgres cannot be reached, has no connection left, or did not answer in time.',
    remedy: 'Restore Postgres. Deliveries wait meanwhile, and no attempt is counted.',
  },
  ONCEWARD_PAUSED: {
    name: 'ConsumerPausedError',
    when: 'The consumer is paused: by an operator, by `context.pauseFor`, or by its guard. Nothing ran.',
    remedy: 'Nothing: messages wait. `npx onceward resume CONSUMER` ends the pause.',
  },
  ONCEWARD_CONFIGURATION: {
    name: 'ConfigurationError',
    when: 'Options, tables, the pool or queues cannot work as they are. Thrown at start.',
    remedy: 'Do what the message says; it lists every problem at once.',
  },
  ONCEWARD_ENVELOPE: {
    name: 'EnvelopeError',
    when: 'The stored envelope of a message is damaged, or a later version of onceward wrote it. Logged.',
    remedy:
      'Nothing is lost: the row keeps the message, and a dead letter is published from its body and text headers. Update onceward, then replay the event.',
  },
  ONCEWARD_ANSWER: {
    name: 'AnswerError',
    when: 'A route answered with something that cannot be stored and sent again: a stream, more than 64 KiB, no answer at all.',
    remedy: 'Nothing was committed. Answer with `{ status, headers, body }`, and smaller.',
  },
  ONCEWARD_SEAL: {
    name: 'SealError',
    when: 'A function of the option `seal` failed or gave no answer within 10 seconds, or a sealed value was met without it.',
    remedy:
      'Nothing is stored in plain and nothing is lost. What could not be sealed is tried again; what cannot be opened stays as it is until it gets [its key](sealing.md).',
  },
  ONCEWARD_OUTBOX: {
    name: 'OutboxError',
    when: '`outbox.send` got a message that cannot be sent as it is, or was called after its run, or `sendWith` got a handle without a transaction.',
    remedy:
      'Nothing was sent. Change the message as the error says, or call it inside of the transaction.',
  },
}

export const errorTable = (): string =>
  table(
    ['`code`', 'Class', 'When', 'What to do'],
    Object.entries(ERRORS).map(([name, doc]) => [code(name), code(doc.name), doc.when, doc.remedy]),
  )
