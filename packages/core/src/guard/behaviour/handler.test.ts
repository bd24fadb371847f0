import { describe, expect, test, vi } from 'vitest'
import { setUp } from '../../fixtures/guard.ts'
import { silent } from '../../fixtures/inbox.ts'
import { memoryInbox, memoryLeases, toDelivery } from '../../memory/index.ts'
import { FatalError, RetryableError } from '../../model/errors.ts'
import type { ProcessOptions } from '../../model/guard-port.ts'
import type { Handler, OutcomeRecord } from '../../options/options.ts'
import { createGuard } from '../guard.ts'

test('a handler past its deadline is a failure, and the consumer continues', async () => {
  const { guard } = setUp(() => new Promise(() => undefined), { deadlineMs: 1_000 })
  expect(await guard.process(toDelivery({}))).toMatchObject({
    kind: 'defer',
    reason: 'failed',
    error: { code: 'ONCEWARD_DEADLINE_EXCEEDED' },
  })
  await guard.close()
})

test.each([
  ['undefined', undefined],
  ['a string', 'oops'],
  ['null', null],
])('a handler that throws %s fails like any other handler', async (_, thrown) => {
  const { guard } = setUp(() => {
    throw thrown
  })
  expect(await guard.process(toDelivery({}))).toMatchObject({ kind: 'defer', reason: 'failed' })
  await guard.close()
})

const circle: Record<string, unknown> = {}
circle['self'] = circle

test.each([
  ['a symbol', Symbol('a')],
  ['a Map', new Map()],
  ['a circle', circle],
])('a handler that returns %s is rolled back only if the caller needs it', async (_, value) => {
  const { guard } = setUp(() => value)
  const [read, unread] = [toDelivery({}, { messageId: 'read' }), toDelivery({})]
  // Red before: a handler that returned its driver's result dead-lettered every event.
  expect(await guard.process(unread)).toEqual({ kind: 'ack', by: 'processed' })
  const failed = { kind: 'defer', error: { code: 'ONCEWARD_RETRYABLE' } }
  expect(await guard.process(read, { needsResult: true })).toMatchObject(failed)
  const wrong = { needResult: true } as ProcessOptions
  const refusal = { message: expect.stringMatching(/did you mean "needsResult"/) }
  await expect(guard.process(read, wrong)).rejects.toMatchObject(refusal)
  await expect(guard.processBatch([read], wrong)).rejects.toMatchObject(refusal)
  await guard.close()
})

test('a handler that returns too much is rolled back', async () => {
  const { guard } = setUp(() => 'x'.repeat(65_536))
  const failed = { kind: 'defer', error: { code: 'ONCEWARD_RETRYABLE' } }
  expect(await guard.process(toDelivery({}))).toMatchObject(failed)
  await guard.close()
})

test('a decoder that asks for a retry defers the message, and nothing is refused', async () => {
  const { guard, inbox } = setUp(() => undefined, {
    decode: () => {
      throw new RetryableError('the schema registry is down', { afterMs: 50 })
    },
  })
  expect(await guard.process(toDelivery({}))).toMatchObject({ kind: 'defer', reason: 'failed' })
  expect(inbox.deadLetters()).toEqual([])
  await guard.close()
})

test('a result with NULs and lone surrogates is stored and replayed unchanged', async () => {
  const value = { 'a\0b': 'c\0d\ud800' }
  const { guard } = setUp(() => value)
  const delivery = toDelivery({})
  await guard.process(delivery)
  expect(await guard.process(delivery)).toEqual({ kind: 'ack', by: 'duplicate', result: value })
  await guard.close()
})

describe('the logger of the handler', () => {
  test('is bound to consumer, event and attempt, with the event id of the log line and the dead letter', async () => {
    const lines: Record<string, unknown>[] = []
    const write = (fields: object): void => void lines.push({ ...fields })
    const logger = { debug: write, info: write, warn: write, error: write }
    const records: OutcomeRecord[] = []
    const { guard, inbox } = setUp(
      (_event, context) => {
        context.logger.info({ step: 1 }, 'charging')
        throw new FatalError('no such customer')
      },
      { logger, observe: (record) => void records.push(record) },
    )
    await guard.process(toDelivery({ secret: 4711 }, { headers: { 'idempotency-key': 'key-1' } }))
    const [letter] = inbox.deadLetters()
    const eventId = letter?.ref.id
    const [own, settled] = lines
    expect(own).toEqual({ consumer: 'billing', eventId, attempt: 1, step: 1 })
    expect(settled).toMatchObject({
      eventId,
      err: { type: 'FatalError', stack: expect.any(String) },
    })
    expect(records).toMatchObject([{ eventId }])
    expect(JSON.stringify(own)).not.toMatch(/key-1|4711/)
    await guard.close()
  })

  test('is made only when it is used', async () => {
    const child = vi.fn()
    const { guard } = setUp(() => undefined, { logger: { ...silent, child } as never })
    await guard.process(toDelivery({}))
    expect(child).not.toHaveBeenCalled()
    await guard.close()
  })

  test('that throws does not fail the handler', async () => {
    const throws = (): never => {
      throw new Error('the disk is full')
    }
    const logger = { debug: throws, info: throws, warn: throws, error: throws }
    const { guard } = setUp((_, context) => context.logger.info({}, 'line'), { logger })
    expect(await guard.process(toDelivery({}))).toMatchObject({ by: 'processed' })
    await guard.close()
  })

  test('is bound without an inbox too', async () => {
    const lines: unknown[] = []
    const write = (fields: object): void => void lines.push(fields)
    const logger = { ...silent, info: write }
    const guard = createGuard(
      { consumer: 'mailing', leases: memoryLeases(), onTakeover: 'retry', logger },
      (_, context) => context.logger.info({}, 'sending'),
    )
    await guard.process(toDelivery({}))
    expect(lines).toEqual([{ consumer: 'mailing', eventId: expect.any(String), attempt: 1 }])
    await guard.close()
  })
})

describe('a handler that never reads tx', () => {
  const run = async (
    handler: Handler<unknown, object>,
    events: number,
    options: object = {},
  ): Promise<readonly string[]> => {
    const lines: string[] = []
    const warn = (_: object, message: string): void => void lines.push(message)
    const logger = { ...silent, warn }
    const guard = createGuard(
      { consumer: 'billing', inbox: memoryInbox({}), logger, ...options },
      handler,
    )
    for (let n = 0; n < events; n += 1) await guard.process(toDelivery({ n }))
    await guard.close()
    return lines
  }

  test('is warned about once, after some events', async () => {
    const warning = [expect.stringMatching(/^the handler never used tx/)]
    expect(await run(() => undefined, 100)).toEqual(warning)
    expect(await run(() => undefined, 100, { transaction: 'batch' })).toEqual(warning)
    expect(await run(() => undefined, 9)).toEqual([])
  })

  test('is not warned about when one of its branches reads tx, at once or later', async () => {
    let n = 0
    const sometimes: Handler<unknown, object> = async (_, context) => {
      n += 1
      await Promise.resolve()
      return n === 7 ? void context.tx : undefined
    }
    expect(await run(sometimes, 100)).toEqual([])
    expect(await run((_, { tx }) => void tx, 100)).toEqual([])
  })

  test('is not warned about when its events fail', async () => {
    const fails = (): never => {
      throw new FatalError('no')
    }
    const lines = await run(fails, 100)
    expect(lines.filter((line) => line.includes('tx'))).toEqual([])
  })
})
