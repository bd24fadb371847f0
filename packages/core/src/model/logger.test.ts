import { pino } from 'pino'
import { describe, expect, test, vi } from 'vitest'
import {
  boundLogger,
  isLevelEnabled,
  type Logger,
  notice,
  safeLogger,
  withNotices,
} from './logger.ts'

test('pino tells which of its levels are disabled; the console and other loggers write all levels', () => {
  const logger = pino({ level: 'warn' })
  expect([isLevelEnabled(logger, 'debug'), isLevelEnabled(logger, 'warn')]).toEqual([false, true])
  expect(isLevelEnabled(console, 'debug')).toBe(true)
})

const LEVELS = ['debug', 'info', 'warn', 'error'] as const
const BOUND = { consumer: 'billing', eventId: 'e-1', attempt: 2 }

describe('a bound logger', () => {
  test("is pino's own child", () => {
    const lines: unknown[] = []
    const stream = { write: (line: string) => void lines.push(JSON.parse(line)) }
    const logger = boundLogger(pino({ base: null, timestamp: false }, stream), BOUND)
    logger.info({ orderId: 5 }, 'charged')
    Reflect.apply(logger.info, logger, ['only a text'])
    expect(lines).toEqual([
      { level: 30, ...BOUND, orderId: 5, msg: 'charged' },
      { level: 30, ...BOUND, msg: 'only a text' },
    ])
  })

  test.each<[string, unknown]>([
    ['has no child', undefined],
    ['has something else called child', 'child'],
  ])('adds its fields to each line of a logger that %s', (_, child) => {
    const lines: unknown[] = []
    const write = (...line: unknown[]): void => void lines.push(line)
    const plain = { ...{ debug: write, info: write, warn: write, error: write }, child }
    const logger = boundLogger(plain as Logger, BOUND)
    logger.warn({ attempt: 'own' }, 'slow')
    Reflect.apply(logger.error, logger, ['only a text'])
    expect(lines).toEqual([
      [{ ...BOUND, attempt: 'own' }, 'slow'],
      [BOUND, 'only a text'],
    ])
  })

  test('has one child of its logger, which writes all lines', () => {
    const lines: unknown[] = []
    const write = (...line: unknown[]): void => void lines.push(line)
    const levels = { debug: write, info: write, warn: write, error: write }
    const child = vi.fn(() => levels)
    const logger = boundLogger({ child } as unknown as Logger, BOUND)
    logger.warn({ orderId: 5 }, 'slow')
    logger.info({}, 'done')
    expect(child.mock.calls).toEqual([[BOUND]])
    expect(lines).toEqual([
      [{ orderId: 5 }, 'slow'],
      [{}, 'done'],
    ])
  })

  test('keeps the message of a line whose fields are no object', () => {
    const info = vi.fn()
    const logger = boundLogger({ info } as unknown as Logger, BOUND)
    Reflect.apply(logger.info, logger, [null, 'done'])
    Reflect.apply(logger.info, logger, [null])
    expect(info.mock.calls).toEqual([
      [BOUND, 'done'],
      [BOUND, 'null'],
    ])
  })
})

const fails = (): never => {
  throw new Error('the disk is full')
}
const rejects = (): Promise<never> => Promise.reject(new Error('the collector is away'))
const ODD: readonly (readonly [string, object])[] = [
  ['throws', Object.fromEntries(LEVELS.map((level) => [level, fails]))],
  ['rejects', Object.fromEntries(LEVELS.map((level) => [level, rejects]))],
  ['throws when it is read', new Proxy({}, { get: fails })],
  ['has no methods any more', {}],
]

test.each(ODD)('a logger that %s does not reach its caller', async (_, logger) => {
  for (const each of [safeLogger(logger as Logger), boundLogger(logger as Logger, BOUND)]) {
    for (const level of LEVELS) {
      each[level]({}, 'line')
      expect(isLevelEnabled(logger as Logger, level)).toBe(true)
      expect(isLevelEnabled(each, level)).toBe(true)
    }
  }
})

// Red before: pino and console wrote every property of an error that an adapter or a store had logged.
describe('the logger of onceward’s own lines', () => {
  const cause = Object.assign(new Error('refused'), { command: { args: ['a secret'] } })
  const err = Object.assign(new Error('down', { cause }), { parameters: ['a secret'] })

  test.each(LEVELS)('describes the error of a %s line', (level) => {
    const lines: unknown[] = []
    const write = (...line: unknown[]): void => void lines.push(line)
    const logger = safeLogger({ debug: write, info: write, warn: write, error: write })
    logger[level]({ queue: 'orders', err }, 'it stops')
    const described = { type: 'Error', name: 'Error', message: 'down', stack: expect.any(String) }
    const inner = { ...described, message: 'refused' }
    expect(lines).toEqual([[{ queue: 'orders', err: { ...described, cause: inner } }, 'it stops']])
  })
})

// Red when lines for a person at a terminal are written to the log of a service, which did not ask for them.
test('a notice goes to a logger that takes notices, and to no other', () => {
  const info = vi.fn()
  const logger = { debug: fails, info, warn: fails, error: fails }
  for (const each of [logger, safeLogger(logger), console, new Proxy(logger, { get: fails })])
    notice(each, { queue: 'orders' }, 'started')
  expect(info).not.toHaveBeenCalled()
  notice(safeLogger(withNotices(logger)), { queue: 'orders' }, 'started')
  expect(info.mock.calls).toEqual([[{ queue: 'orders' }, 'started']])
  expect(() => notice(withNotices({ ...logger, info: fails }), {}, 'started')).not.toThrow()
})
