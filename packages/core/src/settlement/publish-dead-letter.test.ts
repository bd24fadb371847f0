import { expect, test } from 'vitest'
import { Clock } from '../fixtures/clock.ts'
import { newEvent, silent } from '../fixtures/inbox.ts'
import { toDelivery } from '../memory/to-delivery.ts'
import type { EventId } from '../model/brands.ts'
import type {
  DeadLetterRef,
  DueEvent,
  InboxSession,
  Publish,
  PublishAnswer,
} from '../model/inbox.ts'
import type { Settlement } from '../model/settlement.ts'
import type { ResolvedOptions } from '../options/resolved-options.ts'
import type { Outcome } from './outcome.ts'
import { createDeadLetterPublisher } from './publish-dead-letter.ts'

const error = new Error('no such customer')
const delivery = toDelivery({ order: 1 })
const ref: DeadLetterRef = { kind: 'event', id: newEvent().id as EventId }
const dead = (over: Partial<Extract<Outcome, { kind: 'dead' }>> = {}): Outcome => ({
  kind: 'dead',
  reason: 'fatal',
  attempt: 2,
  error,
  ...over,
})

/** Publishes with a session whose answer the test sets. */
function setUp(answer: PublishAnswer | Error = 'published') {
  const clock = new Clock()
  const runtime = { ...clock.runtime, uuid: () => 'a-uuid' }
  const logged: object[] = []
  const logger = { ...silent, error: (fields: object) => void logged.push(fields) }
  const options = { consumer: 'billing', logger, runtime } as unknown as ResolvedOptions
  const asked: unknown[] = []
  const session = {
    publish: async (...args: readonly unknown[]) => {
      asked.push(args)
      if (answer instanceof Error) throw answer
      return answer
    },
  } as unknown as InboxSession<unknown>
  const letters: unknown[] = []
  const publish: Publish = async (letter) => void letters.push(letter)
  const publishing = createDeadLetterPublisher(options)
  const settle = (outcome: Outcome, kind: Settlement['kind'] = 'dead-letter'): Settlement => {
    const settlement = { kind, reason: 'fatal' } as Settlement
    publishing.note(settlement, { delivery, key: 'k', outcome })
    return settlement
  }
  return { logged, asked, session, letters, publish, publishing, settle }
}

test.each([
  ['published', { kind: 'published' }],
  ['already', { kind: 'already' }],
  // Another process publishes it now, or the record is gone: the redelivery decides.
  ['held', { kind: 'retry' }],
  ['gone', { kind: 'retry' }],
] as const)('a recorded dead letter is published under its row: %s', async (answer, expected) => {
  const { asked, session, letters, publish, publishing, settle } = setUp(answer)
  expect(await publishing.publish(settle(dead({ ref })), publish, session)).toEqual(expected)
  expect(asked).toEqual([[ref, publish, 10_000]])
  expect(letters).toEqual([])
})

test('without a session the dead letter is built from the delivery', async () => {
  const { letters, publish, publishing, settle } = setUp()
  expect(await publishing.publish(settle(dead({ ref })), publish, undefined)).toEqual({
    kind: 'published',
  })
  const now = new Date(1_000_000)
  expect(letters).toEqual([
    {
      ...{ ref, consumer: 'billing', key: 'k', reason: 'fatal', attempts: 2, delivery },
      ...{ error: 'no such customer', firstFailedAt: now, lastFailedAt: now },
    },
  ])
})

test('a dead letter without a record gets its own id, and an error only if there was one', async () => {
  const { asked, session, letters, publish, publishing, settle } = setUp()
  const settlement = settle(dead({ error: undefined }))
  expect(await publishing.publish(settlement, publish, session)).toEqual({ kind: 'published' })
  expect(asked).toEqual([])
  expect(letters).toMatchObject([{ ref: { kind: 'refused', id: 'a-uuid' }, error: undefined }])
})

test('other settlements, and settlements of other guards, publish nothing', async () => {
  const { asked, session, letters, publish, publishing, settle } = setUp()
  const strangers = [
    settle(dead({ ref }), 'ack'),
    settle({ kind: 'processed', attempt: 1 }),
    { kind: 'dead-letter', reason: 'fatal' } as const,
  ]
  for (const settlement of strangers) {
    expect(await publishing.publish(settlement, publish, session)).toEqual({ kind: 'already' })
  }
  expect([asked, letters]).toEqual([[], []])
})

test('a dead letter that cannot be published is retried, and the log names the error', async () => {
  const down = new Error('the broker is down')
  const { session, publish, publishing, settle, logged } = setUp(down)
  const answer = await publishing.publish(settle(dead({ ref })), publish, session)
  expect(answer).toEqual({ kind: 'retry', error: down })
  expect(logged).toMatchObject([{ err: { message: 'the broker is down' } }])
})

const due = (broker: string, queue: string): DueEvent => ({
  ref,
  what: 'publish',
  delivery: { ...delivery, source: { broker, queue } },
})

test('a parked dead letter is published only by the publisher of its source', async () => {
  const { asked, session, publish, publishing } = setUp()
  const unregister = publishing.register({ broker: 'sqs', queue: 'orders' }, publish)
  await publishing.publishDue(due('sqs', 'refunds'), session)
  await publishing.publishDue(due('kafka', 'orders'), session)
  expect(asked).toEqual([])
  await publishing.publishDue(due('sqs', 'orders'), session)
  expect(asked).toEqual([[ref, publish, 10_000]])
  unregister()
  await publishing.publishDue(due('sqs', 'orders'), session)
  expect(asked).toHaveLength(1)
})

test('unregistering does not remove a publisher that was registered later', async () => {
  const { asked, session, publish, publishing } = setUp()
  const source = { broker: 'sqs', queue: 'orders' }
  const unregister = publishing.register(source, async () => undefined)
  publishing.register(source, publish)
  unregister()
  await publishing.publishDue(due('sqs', 'orders'), session)
  expect(asked).toEqual([[ref, publish, 10_000]])
})
