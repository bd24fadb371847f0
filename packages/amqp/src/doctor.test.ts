import { expect, test } from 'vitest'
import type { QueueShape } from './clients/queue-shape.ts'
import { levelFindings, type QueueFacts, queueFindings } from './doctor.ts'

const shape = (args: object = {}, overrides: Partial<QueueShape> = {}): QueueShape => ({
  durable: true,
  autoDelete: false,
  exclusive: false,
  arguments: { ...args },
  ...overrides,
})

function facts(
  settings: Partial<QueueFacts['settings']> = {},
  version?: [number, number],
): QueueFacts {
  return {
    settings: { queue: 'orders', deadLetter: undefined, deadLetterPolicy: false, ...settings },
    version: version ?? [3, 10],
  }
}

const limited = { 'x-queue-type': 'quorum', 'x-delivery-limit': 3 }

test('a durable queue with default settings gives no warning', () => {
  expect(queueFindings(shape(), facts())).toEqual({ problems: [], warnings: [] })
})

test.each([
  ['a stream', shape({ 'x-queue-type': 'stream' }), 'stream'],
  ['an auto-delete queue', shape({}, { autoDelete: true }), 'auto_delete'],
  ['an exclusive queue', shape({}, { exclusive: true }), 'exclusive'],
  ['a delivery limit without a dead-letter exchange', shape(limited), 'x-delivery-limit 3'],
  ['a delivery limit of none', shape({ ...limited, 'x-delivery-limit': 0 }), 'x-delivery-limit 0'],
])('refuses %s', (_what, found, expected) => {
  expect(queueFindings(found, facts()).problems.join()).toContain(expected)
})

// Red when only the limit is checked: with a dead-letter destination nothing is dropped.
test('trap T22: a delivery limit is accepted if dead letters have a destination', () => {
  const withExchange = shape({ ...limited, 'x-dead-letter-exchange': 'dead' })
  expect(queueFindings(withExchange, facts()).problems).toEqual([])
  expect(queueFindings(shape(limited), facts({ deadLetterPolicy: true })).problems).toEqual([])
  expect(queueFindings(shape(limited), facts({ deadLetter: 'dlx' })).problems).toEqual([])
  const unlimited = shape({ ...limited, 'x-delivery-limit': -1 })
  expect(queueFindings(unlimited, facts()).problems).toEqual([])
  const quorum = shape({ 'x-queue-type': 'quorum' })
  expect(queueFindings(quorum, facts()).problems).toEqual([])
})

// Red when any dead-letter exchange will do: the broker gives a rejected message back at once, for ever.
test.each([
  ['its own routing key', { 'x-dead-letter-routing-key': 'orders' }],
  ['no routing key', {}],
])('a queue that dead-letters into itself, with %s, keeps nothing', (_how, key) => {
  const own = { 'x-dead-letter-exchange': '', ...key }
  const back = queueFindings(shape(own), facts({ deadLetter: 'dlx' }))
  expect(back.problems.join()).toContain('would come back again and again')
  expect(back.warnings).toEqual([])
  expect(queueFindings(shape(own), facts())).toEqual({ problems: [], warnings: [] })
  expect(queueFindings(shape({ ...limited, ...own }), facts()).problems.join()).toContain(
    'x-delivery-limit 3',
  )
  const other = { ...own, 'x-dead-letter-routing-key': 'orders.dead' }
  expect(queueFindings(shape(other), facts({ deadLetter: 'dlx' })).problems).toEqual([])
})

test('the delivery limit of 20 that RabbitMQ 4 gives quorum queues by default gives a warning', () => {
  const quorum = shape({ 'x-queue-type': 'quorum' })
  expect(queueFindings(quorum, facts({}, [4, 2])).warnings.join()).toContain('limit of 20')
  expect(queueFindings(quorum, facts({}, [3, 13])).warnings).toEqual([])
  expect(queueFindings(shape(), facts({}, [4, 2])).warnings).toEqual([])
  const untold = { ...facts(), version: undefined }
  expect(queueFindings(quorum, untold)).toEqual({ problems: [], warnings: [] })
})

test('delay queues that are all short give a warning', () => {
  expect(levelFindings({ levelsMs: [100, 200, 999] }).warnings.join()).toContain(
    'retryLevelsMs` is 999 ms',
  )
  for (const levelsMs of [[100, 1_000], [1_000]]) {
    expect(levelFindings({ levelsMs })).toEqual({ problems: [], warnings: [] })
  }
})

test("a queue that is not durable gives a warning, and so does 'dlx' without a visible exchange", () => {
  const found = queueFindings(shape({}, { durable: false }), facts({ deadLetter: 'dlx' }))
  expect(found.problems).toEqual([])
  expect(found.warnings.join()).toMatch(/not durable.*the broker drops dead messages/s)
})

const KEPT = [
  ['a dead-letter exchange', { 'x-dead-letter-exchange': 'dead' }, {}],
  ['a policy that gives it one', {}, { deadLetterPolicy: true }],
] as const
const LOSSES = [
  ['x-message-ttl', { 'x-message-ttl': 60_000 }],
  ['x-max-length', { 'x-max-length': 7 }],
  ['x-max-length', { 'x-max-length-bytes': 7, 'x-overflow': 'drop-head' }],
] as const

test.each(LOSSES)(
  'a queue that drops messages by its %s gives a warning, unless they are kept',
  (name, args) => {
    expect(queueFindings(shape(args), facts()).warnings.join()).toContain(`(${name})`)
    for (const [_how, more, settings] of KEPT) {
      expect(queueFindings(shape({ ...args, ...more }), facts(settings)).warnings).toEqual([])
    }
  },
)

test('a queue that expires gives a warning, wherever its dead letters go', () => {
  for (const [_how, more, settings] of [['none', {}, {}] as const, ...KEPT]) {
    const found = queueFindings(shape({ 'x-expires': 5_000, ...more }), facts(settings))
    expect(found.warnings.join()).toContain(
      "'orders' goes with its messages 5000 ms after its last consumer",
    )
  }
})

test('a full queue that refuses publishers gives no warning', () => {
  const refusing = { 'x-max-length': 7, 'x-overflow': 'reject-publish' }
  expect(queueFindings(shape(refusing), facts())).toEqual({ problems: [], warnings: [] })
})
