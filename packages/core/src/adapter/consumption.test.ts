import { expect, test } from 'vitest'
import { createGuard } from '../guard/guard.ts'
import { memoryInbox } from '../memory/index.ts'
import { StoreUnavailableError } from '../model/errors.ts'
import type { Guard } from '../model/guard-port.ts'
import { portOf } from '../model/guard-port.ts'
import type { Inbox } from '../model/inbox.ts'
import { type ConsumerLoop, startConsumption } from './consumption.ts'

function makeGuard() {
  const logged: string[] = []
  const log = (_fields: object, text: string): void => void logged.push(text)
  const logger = { debug: log, info: log, warn: log, error: log }
  const guard = createGuard({ consumer: 'billing', inbox: memoryInbox(), logger }, () => undefined)
  return { guard, logged }
}

/** A consumer of a queue on which no message comes. */
function consumeNothing(guard: Guard) {
  const calls: string[] = []
  const note = (call: string) => async (): Promise<void> => void calls.push(call)
  const loop: ConsumerLoop = {
    receiver: { outage: undefined, start: note('start'), stop: note('stop') },
    dispatcher: { inFlight: 0, clear: () => undefined, ended: async () => undefined },
    settling: { settleFailures: 0 },
    finish: note('finish'),
  }
  const port = portOf(guard)
  const common = { port, drainMs: 1_000, signal: undefined, queue: 'orders', describe: String }
  const started = startConsumption({ ...common, createLoop: () => loop })
  return { started, calls }
}

// Red before: `running` for ever, and `stopped` never resolved.
test('a consumer on a queue without messages ends when its guard is closed, and says why', async () => {
  const made = makeGuard()
  const { started, calls } = consumeNothing(made.guard)
  const consumption = await started
  expect(consumption.health().state).toBe('running')
  await made.guard.close()
  await consumption.stopped
  expect(consumption.health().state).toBe('stopped')
  expect(calls).toEqual(['start', 'stop', 'finish'])
  expect(made.logged).toEqual([
    'the guard was closed while its consumer was running; the consumer drains',
  ])
})

test('a consumer on a closed guard starts nothing', async () => {
  const made = makeGuard()
  await made.guard.close()
  const { started, calls } = consumeNothing(made.guard)
  const consumption = await started
  await consumption.stopped
  expect(consumption.health().state).toBe('stopped')
  expect(calls).toEqual(['stop', 'finish'])
})

test('a guard that is closed after the drain of its consumer gets no remark', async () => {
  const made = makeGuard()
  const consumption = await consumeNothing(made.guard).started
  await consumption.drain()
  await made.guard.close()
  expect(made.logged).toEqual([])
})

test('a consumer whose store is down starts', async () => {
  const down = new StoreUnavailableError('connect ECONNREFUSED')
  const inbox = { open: () => Promise.reject(down) } as Inbox<undefined>
  const logger = { debug: ignore, info: ignore, warn: ignore, error: ignore }
  const guard = createGuard({ consumer: 'billing', inbox, logger }, () => undefined)
  const { started, calls } = consumeNothing(guard)
  await (await started).drain()
  expect(calls).toContain('start')
  await guard.close()
})

const ignore = (): void => undefined
