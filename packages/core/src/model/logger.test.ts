import { pino } from 'pino'
import { afterEach, expect, test, vi } from 'vitest'
import { defaultLogger, isLevelEnabled } from './logger.ts'

const emitWarning = vi.spyOn(process, 'emitWarning').mockImplementation(() => undefined)
afterEach(() => emitWarning.mockClear())

test.each(['warn', 'error'] as const)(
  '%s becomes a process warning with escaped control characters',
  (level) => {
    defaultLogger[level]({ err: { message: 'a\nb' } }, 'handler failed')
    expect(emitWarning.mock.calls).toEqual([
      [
        'onceward: handler failed',
        { type: 'OncewardWarning', detail: "{ err: { message: 'a\\nb' } }" },
      ],
    ])
  },
)

test.each(['debug', 'info'] as const)('%s writes nothing', (level) => {
  defaultLogger[level]({}, 'quiet')
  expect(emitWarning).not.toHaveBeenCalled()
})

test('pino tells which of its levels are disabled; the console and other loggers write all levels', () => {
  const logger = pino({ level: 'warn' })
  expect([isLevelEnabled(logger, 'debug'), isLevelEnabled(logger, 'warn')]).toEqual([false, true])
  expect([isLevelEnabled(defaultLogger, 'debug'), isLevelEnabled(defaultLogger, 'warn')]).toEqual([
    false,
    true,
  ])
  expect(isLevelEnabled(console, 'debug')).toBe(true)
})
