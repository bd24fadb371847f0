import type { DeadLetterRef } from '@onceward/core'
import { newDelivery } from '@onceward/testing/conformance'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { type TestInbox, testInbox } from './fixtures/inbox.ts'

const BUDGET_MS = 20_000
const REFUSAL = { delivery: newDelivery(), reason: 'invalid-payload', error: 'bad' } as const
const noPublisher = () => Promise.reject(new Error('published'))

let inbox: TestInbox

beforeEach(async () => {
  inbox = await testInbox()
})
afterEach(() => inbox[Symbol.asyncDispose]())

/** As after a replay whose run was refused again: the poller publishes it. */
async function refusedAgain(): Promise<DeadLetterRef> {
  const [ref] = await inbox.session.refuse([REFUSAL])
  if (ref === undefined) throw new Error('refuse() gave no answer')
  await inbox.letters.replay(ref.id)
  await inbox.session.refuse([REFUSAL])
  return ref
}

describe('a refused message', () => {
  it('that is being published is published by nobody else, and nobody waits for it', async () => {
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

  it('that is refused again after a replay is offered to be published, at once and then ever later', async () => {
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
