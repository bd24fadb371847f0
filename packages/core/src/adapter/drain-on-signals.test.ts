import { EventEmitter } from 'node:events'
import { setImmediate as turn } from 'node:timers/promises'
import { expect, test, vi } from 'vitest'
import { createGuard } from '../guard/guard.ts'
import { memoryInbox } from '../memory/index.ts'
import { ConfigurationError } from '../model/errors.ts'
import { portOf } from '../model/guard-port.ts'
import { type Consumption, startConsumption } from './consumption.ts'
import { type Drainable, drainOn, drainOnSignals } from './drain-on-signals.ts'

/** A process that the test sends signals to, and a consumption whose drain ends when the test says so. */
function setUp() {
  const exit = vi.fn()
  const emitter = Object.assign(new EventEmitter(), { exit })
  const clock = { nowMs: 0 }
  const stopped = Promise.withResolvers<void>()
  const drain = vi.fn(() => stopped.promise.catch(() => undefined))
  const send = (signal: string): void => void emitter.emit(signal, signal)
  const consumption = { stopped: stopped.promise, drain }
  const start = (...more: readonly Drainable[]) =>
    drainOn(emitter, more.length === 0 ? consumption : [consumption, ...more], () => clock.nowMs)
  const listeners = () => emitter.listenerCount('SIGTERM') + emitter.listenerCount('SIGINT')
  return { clock, consumption, drain, exit, listeners, send, start, stopped }
}

test.each(['SIGTERM', 'SIGINT'])(
  '%s drains once, and the promise resolves when all has stopped',
  async (signal) => {
    const { clock, drain, exit, listeners, send, start, stopped } = setUp()
    const ended = start()
    expect(drain).not.toHaveBeenCalled()
    send(signal)
    clock.nowMs = 499
    // One Ctrl-C, which npm sent a second time.
    send('SIGINT')
    expect(drain).toHaveBeenCalledOnce()
    expect([exit.mock.calls, listeners()]).toEqual([[], 2])
    stopped.resolve()
    await ended
    expect(listeners()).toBe(0)
  },
)

test.each([
  ['SIGTERM', 143],
  ['SIGINT', 130],
])('a second signal, %s, ends the process with %i', async (signal, code) => {
  const { clock, exit, send, start } = setUp()
  void start()
  send('SIGTERM')
  clock.nowMs = 500
  send(signal)
  expect(exit.mock.calls).toEqual([[code]])
})

test('a consumer that cannot continue drains the others, and its error comes out', async () => {
  const { listeners, start, stopped, drain } = setUp()
  const other = { stopped: new Promise<void>(() => undefined), drain: vi.fn(async () => undefined) }
  const ended = start(other)
  stopped.reject(new Error('no rights'))
  await expect(ended).rejects.toThrow('no rights')
  expect([drain, other.drain].map(({ mock }) => mock.calls.length)).toEqual([1, 1])
  expect(listeners()).toBe(0)
})

test('a consumption that ends without a signal, and one of a wrap without `stopped`, end it too', async () => {
  const { drain, send, start, stopped } = setUp()
  stopped.resolve()
  await start()
  const wrapped = { drain: vi.fn(async () => undefined) }
  const ended = start(wrapped)
  await turn()
  expect(wrapped.drain).not.toHaveBeenCalled()
  send('SIGTERM')
  await ended
  expect([drain.mock.calls.length, wrapped.drain.mock.calls.length]).toEqual([1, 1])
})

test('the log of the guard says what a person can do meanwhile', async () => {
  const lines: unknown[] = []
  const info = (...line: unknown[]): void => void lines.push(line)
  const logger = { debug: () => {}, info, warn: () => {}, error: () => {} }
  const consume = (consumer: string, drainMs: number): Promise<Consumption> => {
    const guard = createGuard({ consumer, inbox: memoryInbox(), logger }, () => undefined)
    return startConsumption({
      ...{ port: portOf(guard), drainMs, signal: undefined, queue: 'orders', describe: String },
      createLoop: () => ({
        receiver: { outage: undefined, start: async () => undefined, stop: () => undefined },
        dispatcher: { inFlight: 0, clear: () => undefined, ended: async () => undefined },
        settling: { settleFailures: 0 },
        finish: async () => undefined,
      }),
    })
  }
  for (const names of [['billing'], ['billing', 'mailing']]) {
    const emitter = Object.assign(new EventEmitter(), { exit: vi.fn() })
    const ended = drainOn(
      emitter,
      await Promise.all(names.map((name, index) => consume(name, 1_000 * (index + 1)))),
    )
    emitter.emit('SIGINT', 'SIGINT')
    await ended
  }
  const text = 'draining: a second signal ends the process now'
  expect(lines).toEqual([
    [{ consumer: 'billing', signal: 'SIGINT', drainMs: 1_000 }, text],
    [{ signal: 'SIGINT', drainMs: 2_000 }, text],
  ])
})

test.each([
  ['a promise', Promise.resolve(), /write `await` before the `consume…`/],
  ['nothing', undefined, /what the `consume…` of your adapter/],
  ['an empty list', [], /an empty list/],
  ['a guard', [{ process: () => undefined }], /something else/],
])('%s in its place is refused', (_, given, text) => {
  const call = () => drainOnSignals(given as never)
  expect(call).toThrow(ConfigurationError)
  expect(call).toThrow(text)
})
