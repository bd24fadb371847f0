import type { DeadLetterRef } from '@onceward/core/ports'
import { until } from '@onceward/testing'
import { newDelivery, RIGHT_MS } from '@onceward/testing/conformance'
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
