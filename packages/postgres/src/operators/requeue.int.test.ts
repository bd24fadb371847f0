import { ConfigurationError, type Delivery } from '@onceward/core'
import type { DeadLetterRef, EventKey, Refusal } from '@onceward/core/ports'
import { counted, newDelivery, newEvent } from '@onceward/testing/conformance'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { all, type TestInbox, testInbox } from '../fixtures/inbox.ts'
import { deadLetters, type QueueSender } from '../index.ts'

let inbox: TestInbox

beforeEach(async () => {
  inbox = await testInbox()
})
afterEach(() => inbox[Symbol.asyncDispose]())

/** Sends into a list. The broker of a test answers as the test says. */
class Queue implements QueueSender {
  readonly sent: Delivery[] = []
  /** What happens between the send and its confirmation. */
  meanwhile: () => Promise<unknown> = async () => undefined

  owns = (): boolean => true
  ready = async (): Promise<void> => undefined

  async send(delivery: Delivery): Promise<void> {
    this.sent.push(delivery)
    await this.meanwhile()
  }
}

const RIGHT_MS = 30_000
const bodyOf = async (id: string): Promise<unknown> =>
  (await inbox.pool.query('select body from onceward.failed_events where event_id = $1', [id]))
    .rows[0]?.body
const actions = async (): Promise<readonly string[]> =>
  (await inbox.pool.query('select action from onceward.audit order by id')).rows.map(
    ({ action }) => action,
  )
const listed = async () =>
  (await all(inbox.deadLetters.list())).map(({ id, requeued }) => ({ id, requeued }))

async function refused(over: Partial<Refusal> = {}): Promise<DeadLetterRef> {
  const refusal = { delivery: newDelivery(), reason: 'invalid-payload', error: 'no JSON' } as const
  const [ref] = await inbox.session.refuse([{ ...refusal, ...over }])
  if (ref === undefined) throw new Error('refuse() gave no answer')
  return ref
}

const lost = async (): Promise<never> => {
  throw new Error('connection lost')
}
const refusing = async (): Promise<never> => {
  throw new ConfigurationError('The broker refused the message (too large).')
}

describe('requeue of an event', () => {
  it('lets its copy run, and deletes the message once it is confirmed', async () => {
    const { steps } = inbox
    const event = newEvent()
    await steps.buried(event)
    const queue = new Queue()
    queue.meanwhile = async () => {
      expect(await bodyOf(event.id)).not.toBeNull()
      expect(await inbox.session.due(10)).toEqual([])
      expect(await listed()).toEqual([{ id: event.id, requeued: true }])
    }
    const report = await inbox.deadLetters.requeue(event.id, queue)
    expect(report).toEqual({ done: [event.id], untouched: [] })
    expect(queue.sent).toMatchObject([event.delivery])
    expect(await bodyOf(event.id)).toBeNull()
    expect(await listed()).toEqual([])
    expect(await actions()).toEqual(['requeue', 'requeued'])
    const waiting = { kind: 'waiting', attempt: 0, alone: true, remainingMs: 0 }
    expect(await steps.known(event)).toMatchObject(waiting)
    await steps.commit(counted(await steps.countAlone(event)))
    expect(await inbox.deadLetters.requeue(event.id, queue)).toMatchObject({
      untouched: [{ why: 'done' }],
    })
    expect(queue.sent).toHaveLength(1)
  })

  it('may be overtaken by its copy, which has committed before the confirmation', async () => {
    const { steps } = inbox
    const event = newEvent()
    await steps.buried(event)
    const queue = new Queue()
    queue.meanwhile = async () => steps.commit(counted(await steps.countAlone(event)))
    expect((await inbox.deadLetters.requeue(event.id, queue)).done).toEqual([event.id])
    expect(await steps.known(event)).toMatchObject({ kind: 'done' })
    expect(await actions()).toEqual(['requeue', 'requeued'])
  })

  // Red when the confirmation is not fenced by the token: the new dead letter would lose its message.
  it('keeps the message of a copy that has died before the confirmation', async () => {
    const { session, steps } = inbox
    const event = newEvent()
    await steps.buried(event)
    const queue = new Queue()
    queue.meanwhile = async () => {
      const mine = await steps.countAlone(event)
      await session.bury([{ ...mine, error: 'again', reason: 'fatal' }])
    }
    expect((await inbox.deadLetters.requeue(event.id, queue)).done).toEqual([event.id])
    expect(await listed()).toEqual([{ id: event.id, requeued: false }])
    const letter = await inbox.deadLetters.show(event.id)
    expect(letter?.delivery).toMatchObject(event.delivery)
  })

  // Red when a release deletes the row of a message that nobody else has.
  it('keeps the message when a late copy of the original is given back, and the requeue crashes', async () => {
    const { session, steps } = inbox
    const event = newEvent()
    await steps.buried(event)
    const queue = new Queue()
    queue.meanwhile = async () => {
      const mine = await steps.countAlone(event)
      await session.release([{ event, token: mine.token, as: 'given-back' }])
      return lost()
    }
    await inbox.deadLetters.requeue(event.id, queue)
    expect(await listed()).toEqual([{ id: event.id, requeued: true }])
    expect((await inbox.deadLetters.show(event.id))?.delivery).toMatchObject(event.delivery)
  })

  it('that is not confirmed leaves it listed, and a second try sends it again', async () => {
    const event = newEvent()
    await inbox.steps.buried(event)
    const queue = new Queue()
    queue.meanwhile = lost
    const untouched = [{ id: event.id, why: 'unconfirmed', error: 'connection lost' }]
    expect(await inbox.deadLetters.requeue(event.id, queue)).toEqual({ done: [], untouched })
    expect(await listed()).toEqual([{ id: event.id, requeued: true }])
    queue.meanwhile = refusing
    expect(await inbox.deadLetters.requeue(event.id, queue)).toMatchObject({
      untouched: [{ why: 'not-sent', error: expect.stringContaining('too large') }],
    })
    queue.meanwhile = async () => undefined
    expect((await inbox.deadLetters.requeue({ all: true }, queue)).done).toEqual([event.id])
    expect(queue.sent).toHaveLength(3)
    expect(await listed()).toEqual([])
  })

  it('is exclusive while it lasts, and over when its process died', async () => {
    const { pass, pool } = inbox
    const event = newEvent()
    await inbox.steps.buried(event)
    const queue = new Queue()
    queue.meanwhile = async () => {
      const other = deadLetters(pool)
      const held = { done: [], untouched: [{ id: event.id, why: 'held' }] }
      expect(await other.requeue(event.id, queue)).toEqual(held)
      expect(await other.replay(event.id)).toEqual(held)
      expect(await other.discard(event.id, 'x')).toEqual(held)
      await pass(RIGHT_MS)
      queue.meanwhile = async () => undefined
      expect((await other.requeue(event.id, queue)).done).toEqual([event.id])
    }
    expect((await inbox.deadLetters.requeue(event.id, queue)).done).toEqual([event.id])
    expect(queue.sent).toHaveLength(2)
    expect(await listed()).toEqual([])
  })

  it.each(['replay', 'discard'] as const)(
    'that was interrupted can be followed by %s',
    async (verb) => {
      const { steps } = inbox
      const event = newEvent()
      await steps.buried(event)
      const queue = new Queue()
      queue.meanwhile = lost
      await inbox.deadLetters.requeue(event.id, queue)
      const { done } =
        verb === 'replay'
          ? await inbox.deadLetters.replay(event.id)
          : await inbox.deadLetters.discard(event.id, 'x')
      expect(done).toEqual([event.id])
      expect(await listed()).toEqual([])
      expect((await inbox.session.due(10)).map(({ what }) => what)).toEqual(
        verb === 'replay' ? ['run'] : [],
      )
      expect(await steps.known(event)).toMatchObject({
        kind: verb === 'replay' ? 'waiting' : 'dead',
      })
    },
  )

  it('is refused when its key is what the broker gave the message: a copy would be another event', async () => {
    const source = { broker: 'sqs', queue: 'https://q/1/orders', position: 'a-message-id' }
    const delivery = { ...newDelivery(), source }
    const [byId, byPosition, other] = [
      newEvent({ key: 'orders:a-message-id' as EventKey, delivery }),
      newEvent({ key: 'position:3:sqs:5:order:1:1' as EventKey }),
      newEvent({ key: 'order-1' as EventKey, delivery }),
    ]
    for (const event of [byId, byPosition, other]) await inbox.steps.buried(event)
    const { done, untouched } = await inbox.deadLetters.requeue({ all: true }, new Queue())
    expect(done).toEqual([other.id])
    expect(untouched).toEqual([byId, byPosition].map(({ id }) => ({ id, why: 'broker-key' })))
    expect((await listed()).every(({ requeued }) => !requeued)).toBe(true)
  })

  it('changes nothing when the queue is another broker’s, or is not there', async () => {
    const event = newEvent()
    await inbox.steps.buried(event)
    const queue = new Queue()
    queue.owns = () => false
    expect(await inbox.deadLetters.requeue(event.id, queue)).toMatchObject({
      untouched: [{ why: 'other-queue' }],
    })
    queue.owns = () => true
    queue.ready = lost
    await expect(inbox.deadLetters.requeue(event.id, queue)).rejects.toThrow('connection lost')
    expect(queue.sent).toEqual([])
    expect(await listed()).toEqual([{ id: event.id, requeued: false }])
    expect(await actions()).toEqual([])
  })

  it('sends a large message whole, and deletes all its pieces', async () => {
    const body = Buffer.alloc(5 * 1024 * 1024, 'large')
    const event = newEvent({ delivery: { ...newDelivery(), body } })
    await inbox.steps.buried(event)
    const queue = new Queue()
    await inbox.deadLetters.requeue(event.id, queue)
    expect(Buffer.compare(queue.sent[0]?.body ?? Buffer.alloc(0), body)).toBe(0)
    const { rows } = await inbox.pool.query('table onceward.failed_event_parts')
    expect(rows).toEqual([])
  })
})

describe('retention', () => {
  // Red when it is swept like an event that its broker redelivers.
  it.each([true, false])(
    'an interrupted requeue is kept like a dead letter (has a place: %s)',
    async (hasPlace) => {
      const { pass, pool, session, steps } = inbox
      await steps.buried()
      const queue = new Queue()
      queue.meanwhile = lost
      await inbox.deadLetters.requeue({ all: true }, queue)
      await pool.query('update onceward.consumers set has_place = $1', [hasPlace])
      await pass(29 * 86_400_000)
      await session.sweep()
      expect(await listed()).toHaveLength(1)
      await pass(2 * 86_400_000)
      await session.sweep()
      expect(await listed()).toHaveLength(hasPlace ? 1 : 0)
    },
  )
})

describe('requeue of a refused message', () => {
  it('deletes it once it is confirmed', async () => {
    const ref = await refused()
    const queue = new Queue()
    expect((await inbox.deadLetters.requeue(ref.id, queue)).done).toEqual([ref.id])
    expect(queue.sent).toHaveLength(1)
    expect(await listed()).toEqual([])
    expect(await actions()).toEqual(['requeue', 'requeued'])
  })

  // Red when the confirmation deletes what was refused again meanwhile: the broker has settled that copy.
  it('keeps the message when its copy was refused before the confirmation', async () => {
    const delivery = newDelivery()
    const ref = await refused({ delivery })
    const queue = new Queue()
    queue.meanwhile = () => refused({ delivery })
    expect((await inbox.deadLetters.requeue(ref.id, queue)).done).toEqual([ref.id])
    expect(await listed()).toEqual([{ id: ref.id, requeued: false }])
    expect(await inbox.session.takePublishing(ref, RIGHT_MS)).toMatchObject({ kind: 'taken' })
  })

  // Its event key is not known: two copies could be two events.
  it('that is not confirmed is not sent a second time, but can be discarded', async () => {
    const ref = await refused()
    const queue = new Queue()
    queue.meanwhile = lost
    const unconfirmed = { untouched: [{ id: ref.id, why: 'unconfirmed' }] }
    expect(await inbox.deadLetters.requeue(ref.id, queue)).toMatchObject(unconfirmed)
    expect(await inbox.deadLetters.requeue(ref.id, queue)).toMatchObject(unconfirmed)
    expect(queue.sent).toHaveLength(1)
    expect(await listed()).toEqual([{ id: ref.id, requeued: true }])
    expect((await inbox.deadLetters.discard(ref.id, 'it is in the queue')).done).toEqual([ref.id])
  })

  it('that the broker refused is as before', async () => {
    const ref = await refused()
    const queue = new Queue()
    queue.meanwhile = refusing
    const { untouched } = await inbox.deadLetters.requeue(ref.id, queue)
    expect(untouched).toMatchObject([{ why: 'not-sent' }])
    expect(await listed()).toEqual([{ id: ref.id, requeued: false }])
    queue.meanwhile = async () => undefined
    expect((await inbox.deadLetters.requeue(ref.id, queue)).done).toEqual([ref.id])
  })
})
