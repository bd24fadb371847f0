import { handMadeGuard } from '@onceward/testing/adapter'
import { expect, test } from 'vitest'
import { consumeAmqp } from './index.ts'

const refusing = (): never => {
  throw new Error('a Proxy that throws at every look')
}
const hostile = (): object =>
  new Proxy({}, { get: refusing, has: refusing, getPrototypeOf: refusing, ownKeys: refusing })
const unreadable = Object.defineProperty(new Error('why'), 'message', { get: refusing })

const NO_CONNECTION = 'Let it return what `connect()` of amqplib answers.'

/** What a function that should open a connection may do instead. */
const ODD: readonly (readonly [string, () => unknown, reason?: string])[] = [
  ['throws', refusing],
  ['rejects', () => Promise.reject(new Error('refused'))],
  ['rejects with undefined', () => Promise.reject(undefined)],
  ['rejects with a symbol', () => Promise.reject(Symbol('odd'))],
  ['rejects with an object without a prototype', () => Promise.reject(Object.create(null))],
  ['rejects with an error that cannot be read', () => Promise.reject(unreadable)],
  ['rejects with a Proxy that throws', () => Promise.reject(hostile())],
  ['answers nothing', () => undefined, NO_CONNECTION],
  ['answers a text', () => 'connection', NO_CONNECTION],
  ['answers an object that is no connection', () => ({}), NO_CONNECTION],
  ['answers a Proxy that throws', () => hostile()],
  ['never answers', () => new Promise(() => undefined)],
]

test.each(ODD.map(([name, odd, reason = '']) => [name, odd, reason] as const))(
  'a connection function that %s is called again, and the drain ends',
  async (_, odd, reason) => {
    const made = handMadeGuard()
    let calls = 0
    const connection = () => {
      calls += 1
      return odd() as never
    }
    let consumption: Awaited<ReturnType<typeof consumeAmqp>> | undefined
    const starting = consumeAmqp(connection, made.guard, { queue: 'orders' })
    void starting.then((started) => {
      consumption = started
    })
    for (let n = 0; n < 200 && calls < 3; n += 1) await made.clock.advance(1_000)
    expect(calls).toBeGreaterThan(2)
    expect(consumption?.health()).toMatchObject({
      state: 'recovering',
      reason: expect.stringContaining(reason),
    })
    const draining = consumption?.drain()
    await made.clock.advance(60_000)
    await draining
    await consumption?.stopped
    expect(made.clock.timers).toBe(0)
  },
)
