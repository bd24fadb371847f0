import { expect, test } from 'vitest'
import { describeError } from '../model/errors.ts'
import { isLevelEnabled, LINES } from '../model/logger.ts'
import { consoleLogger, createLogger, formOf, type LogTarget } from './default-logger.ts'

const AT = new Date(2026, 10, 28, 9, 5, 7).getTime()
const EVENT = '0c5d9f52-6f3c-9b3a-2f86-8f5b7a5e6f10'

function hear(form: LogTarget['form'], hasColours = false) {
  const lines: string[] = []
  const logger = createLogger(() => ({
    ...{ form, hasColours, now: () => AT },
    write: (text) => void lines.push(text),
  }))
  return { lines, logger }
}

test.each([
  [true, {}, 'people', true],
  [true, { NODE_ENV: 'production' }, 'json', false],
  [true, { NO_COLOR: '1' }, 'people', false],
  [true, { NO_COLOR: '' }, 'people', true],
  [true, { TERM: 'dumb' }, 'people', false],
  [false, { FORCE_COLOR: '1' }, 'json', false],
] as const)(
  'a terminal (%s) with %j gets lines for %s, colours: %s',
  (isTerminal, env, form, hasColours) => {
    expect(formOf(isTerminal, env)).toEqual({ form, hasColours })
  },
)

test('no line of the level debug is written or computed', () => {
  const byDefault = consoleLogger({ now: () => AT as never })
  expect(isLevelEnabled(byDefault, 'debug')).toBe(false)
  expect(isLevelEnabled(byDefault, 'info')).toBe(true)
  const { lines, logger } = hear('people')
  logger.debug({}, 'quiet')
  expect(lines).toEqual([])
})

const ATTEMPT = {
  ...{ consumer: 'billing', eventId: EVENT, keyHash: '4fd1', attempt: 2 },
  source: { broker: 'sqs', queue: 'https://sqs.eu-west-1.amazonaws.com/1234/orders' },
}
const FRAMES = `Error: card declined
    at charge (/app/src/billing.ts:12:9)
    at callHandler (/app/node_modules/@onceward/core/dist/transaction/run.js:3:1)
    at async run (file:///app/node_modules/@onceward/core/dist/guard/run.js:8:2)
    at process.processTicksAndRejections (node:internal/process/task_queues:105:5)
    at retried (/app/src/retry.ts:4:1)
    at node:internal/main:1:1`

test.each<[string, 'info' | 'warn' | 'error', object, string, string]>([
  [
    'a start',
    'info',
    { consumer: 'billing', queue: 'https://sqs.eu/1/orders', concurrency: 8 },
    LINES.started,
    '09:05:07 billing consumes orders, 8 at a time',
  ],
  [
    'a line of a handler',
    'info',
    { consumer: 'billing', eventId: EVENT, attempt: 1, cents: 5, who: 'a\nb' },
    'charged',
    '09:05:07 billing charged  cents=5 who=a\\u000ab',
  ],
  [
    'duplicates',
    'info',
    { consumer: 'billing', duplicates: 12, keyHash: '4fd1', key: 'order-7' },
    LINES.duplicates,
    '09:05:07 billing 12 duplicates, last order-7',
  ],
  [
    'one duplicate with a hashed key',
    'info',
    { consumer: 'billing', duplicates: 1, keyHash: '4fd1' },
    LINES.duplicates,
    '09:05:07 billing 1 duplicate, last key #4fd1',
  ],
  [
    'a drain',
    'info',
    { signal: 'SIGINT', drainMs: 20_000 },
    LINES.draining,
    '09:05:07 onceward draining, up to 20 s; Ctrl-C again ends now',
  ],
  [
    'a failure',
    'warn',
    {
      ...ATTEMPT,
      outcome: 'failed',
      reason: 'failed',
      err: { name: 'Error', message: 'card declined', stack: FRAMES },
    },
    'handler failed, the event is retried',
    `09:05:07 WARN billing handler failed, the event is retried
    key #4fd1, event ${EVENT}, attempt 2, from orders (sqs)
    Error: card declined
        at charge (/app/src/billing.ts:12:9)
        … 3 frames of onceward and Node
        at retried (/app/src/retry.ts:4:1)
        … 1 frame of onceward and Node
    → npx onceward explain --id ${EVENT}`,
  ],
  [
    'a dead letter',
    'error',
    {
      ...ATTEMPT,
      key: 'order-7',
      outcome: 'dead',
      reason: 'fatal',
      err: {
        name: 'FatalError',
        message: 'no',
        cause: { name: 'Error', message: 'why\n09:05:07 ERROR forged \u001b[31m' },
      },
    },
    'event dead-lettered',
    `09:05:07 ERROR billing event dead-lettered
    order-7, event ${EVENT}, attempt 2, fatal, from orders (sqs)
    FatalError: no
    caused by Error: why
    09:05:07 ERROR forged \\u001b[31m
    → npx onceward explain --id ${EVENT}
    → npx onceward dead-letters replay ${EVENT}`,
  ],
  [
    'an id that no store has made',
    'error',
    { outcome: 'dead', eventId: '; rm -rf /' },
    'dead',
    '09:05:07 ERROR onceward dead\n    event ; rm -rf /',
  ],
])('%s is readable on a terminal', (_, level, fields, message, expected) => {
  const { lines, logger } = hear('people')
  logger[level](fields, message)
  expect(lines).toEqual([expected])
})

// A stack of this process: its frames are of this clone and of Node.
test('frames of a clone of onceward are folded too', () => {
  const { lines, logger } = hear('people')
  logger.error({ err: describeError(new TypeError('here')) }, 'it fails')
  expect(lines[0]).toMatch(/TypeError: here\n {8}… \d+ frames? of onceward and Node/)
  expect(lines[0]).not.toContain('default-logger.test.ts')
})

test('colours are codes around the same text', () => {
  const [plain, coloured] = [hear('people'), hear('people', true)]
  for (const { logger } of [plain, coloured]) logger.error({ ...ATTEMPT, outcome: 'dead' }, 'dead')
  expect(coloured.lines[0]).toContain('\u001b[31mERROR\u001b[39m')
  // biome-ignore lint/suspicious/noControlCharactersInRegex: the codes are what is taken out
  expect(coloured.lines[0]?.replaceAll(/\u001b\[\d+m/g, '')).toBe(plain.lines[0])
})

test('elsewhere a line is JSON as pino writes it, whatever is in the fields', () => {
  const { lines, logger } = hear('json')
  const circle: Record<string, unknown> = { consumer: 'billing' }
  circle['self'] = circle
  logger.info({ consumer: 'billing', cents: 5n }, 'charged')
  logger.error({ err: new RangeError('no') }, 'it fails')
  logger.warn(circle, 'odd')
  Reflect.apply(logger.info, logger, ['only a text'])
  const parsed = lines.map((line) => JSON.parse(line))
  const base = { pid: process.pid, hostname: expect.any(String), time: AT }
  expect(parsed).toEqual([
    { level: 30, ...base, consumer: 'billing', cents: '5', msg: 'charged' },
    {
      level: 50,
      ...base,
      err: expect.objectContaining({
        type: 'RangeError',
        message: 'no',
        stack: expect.any(String),
      }),
      msg: 'it fails',
    },
    { level: 40, ...base, fields: expect.stringContaining('[Circular'), msg: 'odd' },
    { level: 30, ...base, msg: 'only a text' },
  ])
  for (const line of lines) expect(line).not.toContain('\n')
})
