import { ConfigurationError, type Delivery } from '@onceward/core'
import type { DeadLetterRef } from '@onceward/core/ports'
import { counted, newDelivery, newEvent } from '@onceward/testing/conformance'
import { afterEach, beforeEach, describe, expect, it, test } from 'vitest'
import { all, type TestInbox, testInbox } from '../fixtures/inbox.ts'
import { deadLetters, type QueueSender } from '../index.ts'
import { createStatements } from '../statements/index.ts'

let inbox: TestInbox

beforeEach(async () => {
  inbox = await testInbox()
})
afterEach(() => inbox[Symbol.asyncDispose]())

const RIGHT_MS = 30_000

const queue = (send: () => Promise<unknown>): QueueSender => ({
  ...{ owns: () => true, ready: async () => undefined },
  send: async () => void (await send()),
})
const taken = queue(async () => undefined)
const lost = async (): Promise<never> => {
  throw new Error('connection lost')
}

async function refused(delivery: Delivery = newDelivery()): Promise<DeadLetterRef> {
  const refusal = { delivery, reason: 'invalid-payload', error: 'no JSON' } as const
  const [ref] = await inbox.session.refuse([refusal])
  if (ref === undefined) throw new Error('refuse() gave no answer')
  return ref
}

/** A refused message that its guard still has to publish: an operator had it run, and it was refused again. */
async function refusedAgain(delivery: Delivery = newDelivery()): Promise<DeadLetterRef> {
  const ref = await refused(delivery)
  await inbox.deadLetters.replay(ref.id)
  return refused(delivery)
}

// Red when the count stays: the message would be refused without being read, whatever was repaired.
test.each(['replay', 'requeue'] as const)(
  'a message whose reader died is read anew after a %s',
  async (verb) => {
    const delivery = newDelivery()
    const [mine, other] = [inbox.session.messageCounts, newDelivery()]
    await mine?.start([delivery, other])
    const { id } = await refused(delivery)
    if (verb === 'replay') await inbox.deadLetters.replay(id)
    else await inbox.deadLetters.requeue(id, taken)
    expect(await mine?.start([delivery, other])).toEqual(['started', 'left'])
  },
)

describe('while a message is sent back', () => {
  // Red when the row stays parked: a guard runs it from there, beside the copy in the queue.
  it('no guard runs it or publishes it', async () => {
    const ref = await refusedAgain()
    let isSent = false
    const sender = queue(async () => {
      isSent = true
      expect(await inbox.session.due(10)).toEqual([])
      expect(await inbox.deadLetters.show(ref.id)).toMatchObject({ requeued: true })
    })
    expect(await inbox.deadLetters.requeue(ref.id, sender)).toMatchObject({ done: [ref.id] })
    expect(isSent).toBe(true)
  })

  it('it counts as not published, because a copy of it may become a dead letter anew', async () => {
    const delivery = newDelivery()
    const [event, ref] = [newEvent(), await refused(delivery)]
    const buried = await inbox.steps.buried(event)
    for (const each of [buried, ref]) await inbox.steps.published(each)
    await inbox.deadLetters.requeue(event.id, queue(lost))
    expect(await inbox.deadLetters.show(event.id)).toMatchObject({ published: false })
    await inbox.deadLetters.requeue(
      ref.id,
      queue(() => refused(delivery)),
    )
    expect(await inbox.session.takePublishing(ref, RIGHT_MS)).toMatchObject({ kind: 'taken' })
  })
})

// Red when the right is given back without a look at its token: a third operator would send the message too.
test('a requeue that took too long leaves the right of the next one alone', async () => {
  const { pass, pool, steps } = inbox
  const event = newEvent()
  await steps.buried(event)
  const [begun, end] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()]
  const second = queue(async () => {
    begun.resolve()
    await end.promise
  })
  let next: Promise<unknown> | undefined
  const first = queue(async () => {
    await pass(RIGHT_MS)
    next = deadLetters(pool).requeue(event.id, second)
    await begun.promise
    return lost()
  })
  expect(await inbox.deadLetters.requeue(event.id, first)).toMatchObject({
    untouched: [{ why: 'unconfirmed' }],
  })
  const held = { done: [], untouched: [{ id: event.id, why: 'held' }] }
  expect(await inbox.deadLetters.requeue(event.id, taken)).toEqual(held)
  end.resolve()
  expect(await next).toMatchObject({ done: [event.id] })
})

// Red when it is taken for the dead letter that it was: it would run twice, or its effect would be lost.
it.each(['replay', 'discard'] as const)(
  '%s leaves an event alone whose copy runs before it was confirmed',
  async (verb) => {
    const { deadLetters: letters, steps } = inbox
    const event = newEvent()
    await steps.buried(event)
    await letters.requeue(event.id, queue(lost))
    const running = await steps.countAlone(event)
    const untouched = [{ id: event.id, why: 'not-dead' }]
    expect(await letters[verb](event.id, 'a test')).toEqual({ done: [], untouched })
    expect(await all(letters.list())).toEqual([])
    await steps.commit(counted(running))
    expect(await steps.known(event)).toMatchObject({ kind: 'done' })
  },
)

describe('a refused message that its queue has refused', () => {
  const refusing = queue(async () => {
    throw new ConfigurationError('The broker refused the message (too large).')
  })

  // Red before: nobody published it any more.
  it('is still published by its guard', async () => {
    const ref = await refusedAgain()
    expect(await inbox.session.due(10)).toMatchObject([{ ref, what: 'publish' }])
    await inbox.pass(600_000)
    await inbox.deadLetters.requeue(ref.id, refusing)
    expect(await inbox.session.due(10)).toMatchObject([{ ref, what: 'publish' }])
  })

  // Red before: it counted as not published, and was kept for ever.
  it('is still published', async () => {
    const ref = await refused()
    await inbox.steps.published(ref)
    await inbox.deadLetters.requeue(ref.id, refusing)
    expect(await inbox.session.takePublishing(ref, RIGHT_MS)).toEqual({ kind: 'already' })
    await inbox.pass(31 * 86_400_000)
    await inbox.session.sweep()
    expect(await inbox.deadLetters.show(ref.id)).toBeUndefined()
  })
})

// Red before: the pieces of its body were gone by then, and zeros were sent in their place.
test('a requeue sends nothing once the message of an earlier one is confirmed, however late', async () => {
  const event = newEvent({ delivery: newDelivery({ body: new Uint8Array(3_000_000).fill(7) }) })
  await inbox.steps.buried(event)
  const [isSent, isConfirmed] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()]
  const slow = queue(async () => {
    isSent.resolve()
    await isConfirmed.promise
  })
  const first = inbox.deadLetters.requeue(event.id, slow)
  await isSent.promise
  await inbox.pass(RIGHT_MS)
  const { lockEventRow, readEvent } = createStatements()
  let isLocked = false
  const connect = async () => {
    const client = await inbox.pool.connect()
    return {
      release: () => client.release(),
      query: async (text: string, values?: readonly unknown[]) => {
        const answer = await client.query(text, values as unknown[])
        if (text === lockEventRow) isLocked = true
        if (isLocked && text === readEvent) {
          isConfirmed.resolve()
          await first
        }
        return answer
      },
    }
  }
  const sent: unknown[] = []
  const sender = { ...taken, send: async ({ body }: Delivery) => void sent.push(body[0]) }
  const second = await deadLetters({ connect }).requeue(event.id, sender)
  expect([sent, await first]).toEqual([[], { done: [event.id], untouched: [] }])
  expect(second).toEqual({ done: [], untouched: [{ id: event.id, why: 'not-dead' }] })
})
