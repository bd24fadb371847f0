import { expect, test } from 'vitest'
import { newEvent, openInbox, silent } from '../fixtures/inbox.ts'
import { toDelivery } from '../memory/to-delivery.ts'
import type { DeadLetterRef, Publish } from '../model/dead-letter.ts'
import type { Settlement } from '../model/settlement.ts'
import type { ResolvedOptions } from '../options/resolved-options.ts'
import { PUBLISH_BUDGET_MS } from './place-calls.ts'
import { createDeadLetterPublisher } from './publish-dead-letter.ts'

const error = new Error('no such customer')
const delivery = toDelivery({ order: 1 })
/** More than a dead-letter place has calls at the same time. */
const MANY = 20

async function setUp() {
  const { clock, session } = await openInbox()
  const errors: object[] = []
  const logger = { ...silent, error: (fields: object) => void errors.push(fields) }
  const options = { consumer: 'billing', logger, runtime: clock.runtime }
  const publishing = createDeadLetterPublisher(options as unknown as ResolvedOptions)
  const settle = (ref?: DeadLetterRef): Settlement => {
    const settlement: Settlement = { kind: 'dead-letter', reason: 'fatal' }
    const outcome = { kind: 'dead', reason: 'fatal', attempt: 2, error, ref } as const
    publishing.note(settlement, { delivery, key: 'k', outcome, eventId: undefined })
    return settlement
  }
  const recorded = async (): Promise<Settlement> => {
    const event = newEvent()
    await session.bury([{ event, attempt: 1, error, reason: 'fatal' }])
    return settle({ kind: 'event', id: event.id })
  }
  return { clock, session, errors, publishing, settle, recorded }
}

const confirm: Publish = async () => undefined

// Red when a call keeps its slot: after eight dead letters nothing more is published until the process ends.
test('each call of a dead-letter place ends, with an inbox and without', async () => {
  const { clock, publishing, recorded, session, settle } = await setUp()
  const answers: unknown[] = []
  for (let count = 0; count < MANY; count += 1) {
    for (const [settlement, inbox] of [
      [settle(), undefined],
      [await recorded(), session],
    ] as const) {
      answers.push(await clock.until(publishing.publish(settlement, confirm, inbox)))
    }
  }
  expect(answers).toEqual(Array(2 * MANY).fill({ kind: 'published' }))
})

// Red when the message is acked: the successor may not have published its dead letter.
test('a confirmed dead letter whose right is over is settled by the one who has the right', async () => {
  const { publishing, recorded, session } = await setUp()
  const settlement = await recorded()
  session.endPublishing = async () => 'lost'
  const answer = await publishing.publish(settlement, confirm, session)
  expect(answer).toEqual({ kind: 'retry', cause: 'publishing-elsewhere' })
})

test('while its place is down, a dead letter without an inbox waits and is not reported as an error again', async () => {
  const { clock, errors, publishing, settle } = await setUp()
  const fail: Publish = () => Promise.reject(new Error('the broker is down'))
  const tried = await clock.until(publishing.publish(settle(), fail, undefined))
  expect(tried).toMatchObject({ kind: 'retry', error: expect.any(Error) })
  let failures = errors.length
  for (let count = 0; count < MANY; count += 1) {
    const answer = await clock.until(publishing.publish(settle(), fail, undefined))
    expect(answer).toMatchObject({ kind: 'retry', cause: 'dead-letter-place-down' })
    if (answer.kind === 'retry' && answer.error !== undefined) failures += 1
  }
  expect(errors).toHaveLength(failures)
  expect(failures).toBeLessThan(MANY)
})

test('a dead letter without an inbox does not wait for a place that hangs', async () => {
  const { clock, publishing, settle } = await setUp()
  let calls = 0
  const hang: Publish = () => {
    calls += 1
    return new Promise(() => undefined)
  }
  const all = Array.from({ length: MANY }, () => publishing.publish(settle(), hang, undefined))
  for (const answer of await clock.until(Promise.all(all))) {
    expect(answer).toMatchObject({ kind: 'retry', cause: 'dead-letter-place-down' })
  }
  expect(calls).toBe(8)
})

test('a right of which just enough is left for one call is used', async () => {
  const { clock, publishing, recorded, session } = await setUp()
  const settlement = await recorded()
  const take = session.takePublishing.bind(session)
  session.takePublishing = async (ref, rightMs) => {
    const right = await take(ref, rightMs)
    clock.advance(rightMs - PUBLISH_BUDGET_MS)
    return right
  }
  expect(await publishing.publish(settlement, confirm, session)).toEqual({ kind: 'published' })
})
