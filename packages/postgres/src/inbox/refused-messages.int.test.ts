import { createGuard, InvalidPayloadError } from '@onceward/core'
import {
  readEnvelope,
  registerDeliveryNames,
  registerEnvelopeReader,
  withEnvelope,
} from '@onceward/core/adapter'
import type { DeadLetterRef } from '@onceward/core/ports'
import { until } from '@onceward/testing'
import { newDelivery, RIGHT_MS, silent } from '@onceward/testing/conformance'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { lockWaiters, type TestInbox, testInbox } from '../fixtures/inbox.ts'

const REFUSAL = { delivery: newDelivery(), reason: 'invalid-payload', error: 'bad' } as const

let inbox: TestInbox

beforeEach(async () => {
  inbox = await testInbox()
})
afterEach(() => inbox[Symbol.asyncDispose]())

/** A refused message that was replayed, run by a poller and refused again, so that it is published once more. */
async function refusedAgain(): Promise<DeadLetterRef> {
  const [ref] = await inbox.session.refuse([REFUSAL])
  if (ref === undefined) throw new Error('refuse() gave no answer')
  await inbox.steps.published(ref)
  await inbox.deadLetters.replay(ref.id)
  expect(await inbox.session.due(10)).toMatchObject([{ ref, what: 'run' }])
  await inbox.session.refuse([REFUSAL])
  return ref
}

describe('a refused message', () => {
  it('is published by one process at a time, and no other waits', async () => {
    const { session } = inbox
    const ref = await refusedAgain()
    const right = await session.takePublishing(ref, RIGHT_MS)
    expect(await session.takePublishing(ref, RIGHT_MS)).toEqual({ kind: 'held' })
    expect(await session.due(10)).toEqual([])
    if (right.kind !== 'taken') throw new Error(`expected the right, got ${right.kind}`)
    expect(await session.endPublishing(ref, right.token, 'published')).toBe('recorded')
  })

  // Red when an operator decides before the row is locked: each of two would have replayed it.
  it('is replayed by only one of two operators at the same time', async () => {
    const { deadLetters, pool, session } = inbox
    await session.refuse([REFUSAL])
    const other = await pool.connect()
    await other.query('begin; select from onceward.refused_messages for update')
    const replaying = [1, 2].map(() => deadLetters.replay({ all: true }))
    await until(async () => (await lockWaiters(pool)) === 2)
    await other.query('rollback')
    other.release()
    const done = (await Promise.all(replaying)).flatMap((report) => report.done)
    expect(done).toHaveLength(1)
  })

  it('is offered for publishing at once and after growing pauses, if it is refused again after a replay', async () => {
    const { pass, session } = inbox
    const ref = await refusedAgain()
    expect(await session.due(10)).toMatchObject([{ ref, what: 'publish' }])
    expect(await session.due(10)).toEqual([])
    await pass(20_000)
    expect(await session.due(10)).toMatchObject([{ ref, what: 'publish' }])
    expect(await inbox.steps.published(ref)).toBeDefined()
    await pass(3_600_000)
    expect(await session.due(10)).toEqual([])
  })
})

interface Nameless {
  readonly id: string
  readonly isStored: boolean
}

/** Equal messages of a broker that identifies none of them, such as RabbitMQ without message ids. */
describe('equal messages that nothing identifies', () => {
  const source = { broker: 'nameless', queue: 'orders' }
  registerDeliveryNames(source.broker, (raw) => raw as Nameless)
  registerEnvelopeReader(source.broker, ({ envelope = new Uint8Array() }) => ({
    ...{ id: readEnvelope(envelope), isStored: true },
  }))
  const deliveryOf = (id: string) =>
    withEnvelope(
      { ...{ body: Buffer.from('{}'), headers: {}, source }, raw: { id, isStored: false } },
      () => id,
    )
  const ids = ['1', '2', '3']

  // Red when they share the hash of their content: one row and one dead letter for all, and one run of the replay.
  it('are counted, refused and replayed one by one', async () => {
    const { deadLetters, inbox: store, pool } = inbox
    let isBroken = true
    const ran: string[] = []
    const guard = createGuard(
      {
        ...{ consumer: 'equal-messages', inbox: store, onMissingKey: 'unguarded' },
        logger: silent,
        decode: () => {
          if (isBroken) throw new InvalidPayloadError('never')
          return {}
        },
      },
      async ({ raw }) => void ran.push((raw as Nameless).id),
    )
    const first = ids.map(deliveryOf)
    for (const delivery of [...first, ...first]) {
      expect(await guard.process(delivery)).toMatchObject({ kind: 'dead-letter' })
    }
    const { rows } = await pool.query('select from onceward.refused_messages')
    expect(rows).toHaveLength(ids.length)
    isBroken = false
    expect((await deadLetters.replay({ all: true })).done).toHaveLength(ids.length)
    await until(() => ran.length === ids.length)
    expect(ran.toSorted()).toEqual(ids)
    await guard.close()
    expect((await pool.query('select from onceward.refused_messages')).rows).toEqual([])
    expect((await pool.query('select from onceward.suspect_messages')).rows).toEqual([])
  })

  it('fail to be read one by one', async () => {
    const counts = inbox.session.messageCounts
    const deliveries = ids.map(deliveryOf)
    expect(await counts?.start(deliveries)).toEqual(['started', 'started', 'started'])
    expect(await counts?.failed(deliveries)).toEqual([1, 1, 1])
    expect(await counts?.failed(deliveries.slice(1))).toEqual([2, 2])
    await counts?.end(deliveries)
    expect((await inbox.pool.query('select from onceward.suspect_messages')).rows).toEqual([])
  })
})
