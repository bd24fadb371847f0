import type { DeadLetterRef } from '@onceward/core'
import { until } from '@onceward/testing'
import { newDelivery } from '@onceward/testing/conformance'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { lockWaiters, type TestInbox, testInbox } from '../fixtures/inbox.ts'

const BUDGET_MS = 20_000
const REFUSAL = { delivery: newDelivery(), reason: 'invalid-payload', error: 'bad' } as const
const noPublisher = () => Promise.reject(new Error('published'))

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
    const gate = Promise.withResolvers<void>()
    const started = Promise.withResolvers<void>()
    const publish = (): Promise<void> => {
      started.resolve()
      return gate.promise
    }
    const first = session.publish(ref, publish, BUDGET_MS)
    await started.promise
    expect(await session.publish(ref, noPublisher, BUDGET_MS)).toBe('held')
    expect(await session.due(10)).toEqual([])
    gate.resolve()
    expect(await first).toBe('published')
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
    await pass(BUDGET_MS)
    expect(await session.due(10)).toMatchObject([{ ref, what: 'publish' }])
    expect(await session.publish(ref, () => Promise.resolve(), BUDGET_MS)).toBe('published')
    await pass(3_600_000)
    expect(await session.due(10)).toEqual([])
  })
})
