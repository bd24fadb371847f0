import { setImmediate as turn } from 'node:timers/promises'
import { describe, expect, test } from 'vitest'
import { Clock } from '../../fixtures/clock.ts'
import { newEvent, silent } from '../../fixtures/inbox.ts'
import { named, setUp, UNGUARDED } from '../../fixtures/parked.ts'
import type { Delivery } from '../../model/delivery.ts'
import { FatalError, StoreUnavailableError } from '../../model/errors.ts'
import type { MessageCounts } from '../../model/inbox.ts'
import type { OutcomeRecord } from '../../options/options.ts'
import { registerEnvelopeReader } from '../../support/adapter-registry.ts'

test('a replayed message that is refused again keeps its key, in the report and in the record', async () => {
  const records: OutcomeRecord[] = []
  const { memory, refused, poll } = await setUp(undefined, {
    tenant: () => undefined,
    observe: (record) => void records.push(record),
  })
  await refused(named)
  await poll()
  expect(records).toMatchObject([{ keyHash: expect.any(String), parked: true }])
  expect(memory.deadLetters()).toMatchObject([{ key: 'k', reason: 'missing-event-key' }])
})

test('a function of the wrong type that a replayed message meets is reported once', async () => {
  const lines: unknown[] = []
  const { refused, poll } = await setUp(undefined, {
    skip: (() => 'no') as never,
    logger: { ...silent, error: (...line) => void lines.push(line) },
  })
  await refused()
  await poll()
  await poll()
  const message =
    'skip answered a value of the wrong type and its messages are retried: fix the function'
  expect(lines).toEqual([
    [{ option: 'skip', err: expect.objectContaining({ name: 'ConfigurationError' }) }, message],
  ])
})

test('a refused message of a queue without a publisher becomes a dead event: another guard publishes it', async () => {
  const dies = (): never => {
    throw new FatalError('no such customer')
  }
  const { memory, refused, poll, published, resolved } = await setUp(dies)
  const id = await refused(named, 'payload', { source: { broker: 'memory', queue: 'elsewhere' } })
  await poll()
  expect([published, resolved]).toEqual([[], [id]])
  expect(memory.deadLetters()).toMatchObject([{ ref: { kind: 'event' }, reason: 'fatal' }])
})

// Red when such an event keeps its place until all runs of its poll have ended.
test.each([
  ['processed', {}],
  ['unguarded', UNGUARDED],
])(
  'the poller is told of events that end %s, and of duplicates; their records are deleted',
  async (kind, given) => {
    const { refused, endings, resolved } = await setUp(undefined, given)
    await refused(named)
    expect(await endings()).toEqual([kind])
    await refused({ ...named, trace: 'of a copy' })
    expect(await endings()).toEqual([kind === 'processed' ? 'duplicate' : kind])
    expect(resolved).toHaveLength(2)
  },
)

test('the count of a replayed event whose reads end the process ends, so that the next replay is read', async () => {
  const decode = (body: Uint8Array): unknown => JSON.parse(Buffer.from(body).toString())
  const { memory, replayed, poll, ran, session } = await setUp(undefined, { decode })
  const ended: Delivery[] = []
  const messageCounts: MessageCounts = {
    start: async (all) => all.map(() => 'left'),
    failed: async () => [],
    startAlone: async () => 100,
    end: async (all) => void ended.push(...all),
  }
  Object.assign(session, { messageCounts })
  const ref = await replayed(newEvent())
  await poll()
  const error = expect.stringContaining('each read ended the process')
  expect(memory.deadLetters()).toMatchObject([{ ref, reason: 'fatal', error }])
  expect([ran, ended.length]).toEqual([[], 1])
})

// Red before: nobody looked at the error before the other runs had ended, and Node ended the process.
test('a record that cannot be deleted while other events still run does not end the process', async () => {
  const unhandled: unknown[] = []
  const onUnhandled = (error: unknown): void => void unhandled.push(error)
  process.on('unhandledRejection', onUnhandled)
  const slow = Promise.withResolvers<void>()
  const { session, refused, poll, ran } = await setUp(({ payload }) =>
    payload === 'slow' ? slow.promise : undefined,
  )
  const down = new StoreUnavailableError('down')
  session.resolveRefused = () => Promise.reject(down)
  await refused({ 'idempotency-key': '1' }, 'quick')
  await refused({ 'idempotency-key': '2' }, 'slow')
  const polling = poll()
  for (let n = 0; n < 20; n += 1) await turn()
  expect([ran.length, unhandled]).toEqual([2, []])
  slow.resolve()
  await expect(polling).rejects.toBe(down)
  process.off('unhandledRejection', onUnhandled)
})

test('a parked run is reported with the time that it took', async () => {
  const records: OutcomeRecord[] = []
  const clock = new Clock()
  clock.advance(1_000)
  const { refused, poll } = await setUp(() => clock.advance(7), {
    observe: (record) => void records.push(record),
    runtime: clock.runtime,
  })
  await refused(named)
  await poll()
  expect(records).toMatchObject([{ handlerMs: 7, totalMs: 7 }])
})

describe('the message of the client', () => {
  const envelope = new Uint8Array([1])
  const source = { broker: 'parked test', queue: 'memory' }

  test('is there again in a replay', async () => {
    registerEnvelopeReader('parked test', ({ envelope: bytes }) => ({ bytes }))
    const seen: unknown[] = []
    const { refused, poll } = await setUp(({ raw }) => void seen.push(raw))
    await refused(named, 'payload', { source, envelope })
    await poll()
    expect(seen).toEqual([{ bytes: envelope }])
  })

  test('is left out of a replay if it cannot be read, and the log says so', async () => {
    registerEnvelopeReader('parked test', () => {
      throw new Error('of version 9')
    })
    const lines: unknown[] = []
    const { refused, poll, ran } = await setUp(undefined, {
      logger: { ...silent, error: (...line) => void lines.push(line) },
    })
    const id = await refused(named, 'payload', { source, envelope })
    await poll()
    expect(ran).toHaveLength(1)
    expect(lines).toEqual([
      [
        { err: expect.objectContaining({ message: 'of version 9' }), id },
        "a stored delivery runs without the client's message in `raw`: update onceward",
      ],
    ])
  })
})
