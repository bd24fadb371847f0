import { runInNewContext } from 'node:vm'
import { describe, expect, test } from 'vitest'
import { setUp } from '../../fixtures/guard.ts'
import { memoryInbox, memoryLeases, toDelivery } from '../../memory/index.ts'
import type { GuardEvent } from '../../model/delivery.ts'
import type { Logger } from '../../model/logger.ts'
import type { OutcomeRecord } from '../../options/options.ts'
import { createGuard } from '../guard.ts'

/** Values that a handler may throw: JavaScript does not require an Error. */
const ODD: readonly (readonly [string, unknown])[] = [
  ['a text', 'why'],
  ['undefined', undefined],
  ['an error with an odd code', Object.assign(new Error('why'), { code: {} })],
  ['an error of another realm', runInNewContext(`new RangeError('why')`)],
  ['what cannot be described', Object.create(null)],
]

// Red before: process() resolved undefined, the event stayed in flight, and a committed batch rejected.
describe.each(ODD)('a handler that throws %s', (_, thrown) => {
  test('fails: its event is deferred, counted, and no longer in flight', async () => {
    const { guard, inbox, shift } = setUp(() => {
      throw thrown
    })
    for (const attempt of [1, 2]) {
      const settlement = await guard.process(toDelivery('odd', { messageId: 'odd' }))
      expect(settlement).toMatchObject({ kind: 'defer', cause: 'handler-failed' })
      expect(attempt).toBeLessThan(3)
      shift.forward(600_000)
    }
    expect(inbox.deadLetters()).toEqual([])
    await guard.close()
  })

  test('does not undo the committed effects of two other events in the batch', async () => {
    const { guard } = setUp(
      ({ payload }) => {
        if (payload === 'odd') return Promise.reject(thrown)
        return undefined
      },
      { transaction: 'batch' } as object,
    )
    const all = ['a', 'odd', 'b'].map((key) =>
      toDelivery(key, { headers: { 'idempotency-key': key } }),
    )
    const kinds = (await guard.processBatch(all)).map(({ kind }) => kind)
    expect(kinds).toEqual(['ack', 'defer', 'ack'])
    await guard.close()
  })

  test('defers its event without an inbox too', async () => {
    const guard = createGuard(
      { consumer: 'mailing', leases: memoryLeases(), onTakeover: 'retry' },
      () => {
        throw thrown
      },
    )
    expect(await guard.process(toDelivery('odd'))).toMatchObject({ kind: 'defer' })
    await guard.close()
  })
})

describe('hooks and loggers with errors', () => {
  const silent = (): void => undefined
  const fails = (): never => {
    throw new Error('the disk of the log is full')
  }
  const rejects = (): Promise<never> => Promise.reject(new Error('the collector is away'))

  test.each<[string, object]>([
    ['an observe that throws', { observe: fails }],
    // Red before: an unhandled rejection ended the process.
    ['an observe that rejects', { observe: rejects }],
    [
      'a logger that throws',
      { logger: { debug: fails, info: fails, warn: fails, error: fails } satisfies Logger },
    ],
    [
      'a logger that rejects',
      { logger: { debug: rejects, info: silent, warn: rejects, error: rejects } },
    ],
  ])('%s does not prevent the settlement of a delivery', async (_, options) => {
    const { guard } = setUp(({ payload }) => {
      if (payload === 'bad') throw new Error('failed')
    }, options)
    const all = ['good', 'bad'].map((key) =>
      toDelivery(key, { headers: { 'idempotency-key': key } }),
    )
    expect((await guard.processBatch(all)).map(({ kind }) => kind)).toEqual(['ack', 'defer'])
    await guard.close()
  })
})

describe('isFatal without a boolean answer', () => {
  // Red before: a promise is truthy, so every event was dead-lettered after its first failure.
  test.each([
    ['a promise', () => Promise.resolve(false)],
    ['a promise', () => Promise.reject(new Error('no'))],
    ['string', () => 'no'],
  ])(
    '%s: the error is retryable, and the log says how to fix isFatal',
    async (answered, isFatal) => {
      const lines: [object, string][] = []
      const error = (fields: object, message: string): void => void lines.push([fields, message])
      const ignore = (): void => undefined
      const logger = { debug: ignore, info: ignore, warn: ignore, error }
      const { guard } = setUp(
        () => {
          throw new Error('not now')
        },
        { isFatal: isFatal as unknown as () => boolean, logger },
      )
      expect(await guard.process(toDelivery({}))).toMatchObject({ kind: 'defer' })
      expect(lines[0]).toEqual([
        expect.objectContaining({ answered }),
        expect.stringContaining('isFatal must answer true or false'),
      ])
      await guard.close()
    },
  )
})

describe('changes that a handler makes to its event', () => {
  const change = ({ body, headers, payload, producedAt, source }: GuardEvent<unknown>): void => {
    const seen = payload as { cents: number }
    seen.cents += 1
    body.fill(0)
    Object.assign(headers, { changed: 'yes' })
    Object.assign(source, { queue: 'changed' })
    producedAt?.setHours(0, 0, 0, 0)
  }
  const PRODUCED_MS = Date.UTC(2026, 10, 26, 17, 8, 9)
  const order = (key: string) =>
    toDelivery(
      { cents: 100 },
      { headers: { 'idempotency-key': key }, producedAt: new Date(PRODUCED_MS) },
    )

  // Red before: after another event of the batch failed, the changed amount was committed.
  test('do not reach the next run: payload, headers, body, date and source are copies', async () => {
    const seen: unknown[] = []
    let failures = 0
    const inbox = memoryInbox()
    const guard = createGuard(
      { consumer: 'billing', inbox, transaction: 'batch' },
      (event: GuardEvent<unknown>) => {
        const { body, headers, payload, producedAt, source } = event
        seen.push([
          { ...(payload as object) },
          Buffer.from(body).toString(),
          headers['changed'],
          source.queue,
          producedAt?.getTime(),
        ])
        change(event)
        if (event.key === 'b' && failures++ === 0) throw new Error('once')
      },
    )
    const deliveries = ['a', 'b', 'c'].map(order)
    await guard.processBatch(deliveries)
    expect(seen.length).toBeGreaterThan(3)
    for (const each of seen)
      expect(each).toEqual([{ cents: 100 }, '{"cents":100}', undefined, 'memory', PRODUCED_MS])
    expect(deliveries[0]?.headers).not.toHaveProperty('changed')
    await guard.close()
  })

  test('do not reach the dead letter', async () => {
    const { guard, inbox } = setUp(
      (event) => {
        change(event)
        throw new Error('for good')
      },
      { retry: { attempts: 1 } },
    )
    await guard.process(order('a'))
    const [letter] = inbox.deadLetters()
    expect(letter?.delivery.headers).not.toHaveProperty('changed')
    expect(letter?.delivery.producedAt).toEqual(new Date(PRODUCED_MS))
    expect(Buffer.from(letter?.delivery.body ?? []).toString()).toBe('{"cents":100}')
    await guard.close()
  })
})

// Red when decode gets the bytes of the delivery: the second delivery of the same message could not be decoded, and its
// dead letter was not the message that came.
test('a decoder that works in place changes neither the next delivery of its message nor the dead letter', async () => {
  const seen: unknown[] = []
  const { guard, inbox, shift } = setUp(
    ({ payload }) => {
      seen.push(payload)
      throw new Error('for good')
    },
    {
      retry: { attempts: 2 },
      decode: (body) => JSON.parse((body as Buffer).swap16().toString('utf16le')) as unknown,
    },
  )
  const body = Buffer.from('{"cents":100}', 'utf16le').swap16()
  const message = toDelivery(null, { body: Buffer.from(body) })
  expect(await guard.process(message)).toMatchObject({ kind: 'defer' })
  shift.forward(600_000)
  expect(await guard.process(message)).toMatchObject({ kind: 'dead-letter' })
  expect(seen).toEqual([{ cents: 100 }, { cents: 100 }])
  expect(Buffer.from(inbox.deadLetters()[0]?.delivery.body ?? []).equals(body)).toBe(true)
  await guard.close()
})

test('a dead-lettered event is reported once, its copies as repeated, and each record has the event id', async () => {
  const records: OutcomeRecord[] = []
  const { guard } = setUp(
    () => {
      throw new Error('for good')
    },
    { retry: { attempts: 1 }, observe: (record) => void records.push(record) },
  )
  const dead = toDelivery('dead')
  for (let n = 0; n < 3; n += 1) await guard.process(dead)
  expect(records.map(({ repeated }) => repeated)).toEqual([undefined, true, true])
  expect(new Set(records.map(({ eventId }) => eventId)).size).toBe(1)
  await guard.close()
})
