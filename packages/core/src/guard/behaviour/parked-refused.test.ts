import { setImmediate as turn } from 'node:timers/promises'
import { expect, test } from 'vitest'
import { silent } from '../../fixtures/inbox.ts'
import { named, REFUSED, SKIPPED, setUp, UNGUARDED } from '../../fixtures/parked.ts'
import type { Delivery } from '../../model/delivery.ts'
import { FatalError, StoreUnavailableError } from '../../model/errors.ts'
import type { MessageCounts } from '../../model/inbox.ts'
import type { OutcomeRecord } from '../../options/options.ts'

test('a refused message that now has a key runs as an event, and its record is deleted', async () => {
  const { memory, refused, poll, ran, resolved, suspected } = await setUp()
  const id = await refused(named)
  expect(await poll()).toBe(1)
  expect(ran).toEqual([['k', 'payload', 1]])
  // The message may have been started before, so its attempt is recorded before the run.
  expect(suspected).toEqual(['k'])
  expect(resolved).toEqual([id])
  expect(memory.deadLetters()).toEqual([])
})

test('a refused message whose run fails keeps its record, because no broker redelivers it', async () => {
  const { refused, poll, published, resolved } = await setUp(() => {
    throw new Error('not now')
  })
  await refused(named)
  await poll()
  expect([resolved, published]).toEqual([[], []])
  expect(await poll()).toBe(1)
})

test('a refused message that is dead-lettered as an event is published as that event, and its record is deleted', async () => {
  const { memory, refused, poll, published, resolved, refusals } = await setUp(() => {
    throw new FatalError('no such customer')
  })
  const id = await refused(named)
  await poll()
  expect(published).toEqual([{ kind: 'event', id: expect.any(String) }])
  expect(resolved).toEqual([id])
  expect(memory.deadLetters()).toMatchObject([{ key: 'k', ref: { kind: 'event' } }])
  expect(refusals).toEqual(['missing-event-key'])
})

test('a message that is refused again waits for the next replay, with the key and reason of this time', async () => {
  const { memory, refused, poll, ran, resolved } = await setUp()
  await refused()
  expect(await poll()).toBe(1)
  expect(await poll()).toBe(0)
  expect([ran, resolved]).toEqual([[], []])
  const error = expect.stringContaining('No resolver of `eventKey` found a key.')
  expect(memory.deadLetters()).toMatchObject([{ reason: 'missing-event-key', error }])
})

// Red when an operator who replays a message cannot see that it was refused again.
test('a message that is refused again is reported to observe and the log like any parked run', async () => {
  const records: OutcomeRecord[] = []
  const lines: unknown[] = []
  const { refused, poll } = await setUp(undefined, {
    ...REFUSED,
    observe: (record) => void records.push(record),
    logger: { ...silent, error: (...line) => void lines.push(line) },
  })
  await refused()
  await poll()
  const reason = 'invalid-payload'
  expect(records).toMatchObject([{ parked: true, settlement: { kind: 'dead-letter', reason } }])
  expect(lines).toMatchObject([[{ parked: true, reason, outcome: 'dead' }, expect.any(String)]])
})

test('a message that is now refused for another reason also waits for the next replay', async () => {
  const { memory, refused, poll } = await setUp(undefined, REFUSED)
  await refused()
  expect([await poll(), await poll()]).toEqual([1, 0])
  expect(memory.deadLetters()).toMatchObject([{ reason: 'invalid-payload' }])
})

test('a refused message with the key of another payload keeps its record and waits', async () => {
  const { memory, refused, poll, ran, published, resolved } = await setUp()
  await refused(named)
  await poll()
  const id = await refused(named, 'other')
  expect([await poll(), await poll()]).toEqual([1, 0])
  expect(ran).toHaveLength(1)
  expect(memory.deadLetters()).toMatchObject([
    { ref: { kind: 'refused', id }, reason: 'fingerprint-mismatch' },
  ])
  expect([published, resolved.length]).toEqual([[], 1])
})

// Red when the outcome of one is taken for the other's, too: the record of a message that never ran would be deleted.
test('of two stored messages with one key, each has its own outcome', async () => {
  const { memory, refused, poll, ran, resolved } = await setUp()
  const [first, other] = [await refused(named), await refused(named, 'other')]
  expect([await poll(), await poll(), await poll()]).toEqual([2, 1, 0])
  expect(ran).toEqual([['k', 'payload', 1]])
  expect(resolved).toEqual([first])
  expect(memory.deadLetters()).toMatchObject([
    { ref: { kind: 'refused', id: other }, reason: 'fingerprint-mismatch' },
  ])
})

// Red when the record is left unchanged: the handler would run every few seconds, forever.
test('a refused message that fails unguarded is dead-lettered again and waits for the next replay', async () => {
  const { memory, refused, poll, ran, resolved } = await setUp(() => {
    throw new FatalError('no such customer')
  }, UNGUARDED)
  const id = await refused()
  expect([await poll(), await poll()]).toEqual([1, 0])
  expect(ran).toHaveLength(1)
  expect(resolved).toEqual([])
  const error = 'FatalError: no such customer'
  const ref = { kind: 'refused', id }
  expect(memory.deadLetters()).toMatchObject([{ ref, reason: 'fatal', error }])
})

test('a refused message that is now skipped is deleted without a run', async () => {
  const { memory, refused, poll, ran, resolved } = await setUp(undefined, SKIPPED)
  const id = await refused()
  expect(await poll()).toBe(1)
  expect([ran, resolved]).toEqual([[], [id]])
  expect(memory.deadLetters()).toEqual([])
})

test('a refused message that now runs unguarded keeps its record until the run ends', async () => {
  let isBroken = true
  const { refused, poll, stop, ran, resolved } = await setUp(() => {
    if (isBroken) throw new Error('not now')
  }, UNGUARDED)
  const id = await refused()
  await poll()
  expect(ran).toHaveLength(1)
  expect(resolved).toEqual([])
  isBroken = false
  await poll()
  expect(ran).toHaveLength(2)
  expect(resolved).toEqual([id])
  await refused()
  stop.abort()
  await poll()
  expect(ran).toHaveLength(2)
})

test.each([
  { runs: 'guarded', headers: named, given: {} },
  { runs: 'unguarded', headers: {}, given: UNGUARDED },
])(
  'a poll ends after the record of a refused message that ran $runs is deleted, and with its error',
  async ({ headers, given }) => {
    const { session, refused, poll } = await setUp(undefined, given)
    const asked = Promise.withResolvers<void>()
    const deleted = Promise.withResolvers<void>()
    session.resolveRefused = () => {
      asked.resolve()
      return deleted.promise
    }
    await refused(headers)
    let isOver = false
    const polling = poll().finally(() => {
      isOver = true
    })
    await asked.promise
    await turn()
    expect(isOver).toBe(false)
    const down = new Error('the database is down')
    deleted.reject(down)
    await expect(polling).rejects.toBe(down)
  },
)

// Red when the count stays: no broker brings the message again, and each replay would refuse it unread.
test.each([
  ['because its reads end the process', 100, 'no-verdict'],
  ['for another reason', 1, 'missing-event-key'],
])('the count of a replayed message that is refused %s ends once', async (_, reads, reason) => {
  // The reads of messages are counted only where functions of the user read them.
  const decode = (body: Uint8Array): unknown => JSON.parse(Buffer.from(body).toString())
  const { memory, refused, poll, ran, session } = await setUp(undefined, { decode })
  const ended: Delivery[] = []
  const messageCounts: MessageCounts = {
    start: async (all) => all.map(() => 'left'),
    failed: async () => [],
    startAlone: async () => reads,
    end: async (all) => void ended.push(...all),
  }
  Object.assign(session, { messageCounts })
  await refused()
  await poll()
  expect(memory.deadLetters()).toMatchObject([{ reason }])
  expect(ran).toEqual([])
  expect(ended).toHaveLength(1)
})

// Red when the answer is taken for a message that is now skipped: its record would be deleted.
test('a refused message keeps its record when its reads cannot be counted', async () => {
  const decode = (body: Uint8Array): unknown => JSON.parse(Buffer.from(body).toString())
  const { refused, poll, ran, resolved, session } = await setUp(undefined, { decode })
  const start = (): Promise<never> => Promise.reject(new StoreUnavailableError('down'))
  Object.assign(session, { messageCounts: { ...session.messageCounts, start } })
  await refused(named)
  await poll()
  expect([ran, resolved]).toEqual([[], []])
})

// Red when the record is deleted: the event's own dead letter has not been published, and nothing else brings it again.
test('a refused message that is dead-lettered as an event keeps its record until that is published', async () => {
  const dies = (): never => {
    throw new FatalError('no such customer')
  }
  const { refused, poll, resolved } = await setUp(dies, {}, () =>
    Promise.reject(new Error('the dead-letter queue is down')),
  )
  await refused(named)
  await poll()
  expect(resolved).toEqual([])
})

test('a replayed message that runs unguarded is reported with the duration of its handler', async () => {
  const records: OutcomeRecord[] = []
  const observe = (record: OutcomeRecord): void => void records.push(record)
  const { refused, poll } = await setUp(undefined, { ...UNGUARDED, observe })
  await refused()
  await poll()
  expect(records).toMatchObject([{ parked: true, handlerMs: 0 }])
})
