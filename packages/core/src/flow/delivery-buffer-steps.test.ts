import { setImmediate as turn } from 'node:timers/promises'
import { expect, test } from 'vitest'
import { toDelivery } from '../memory/to-delivery.ts'
import type { GuardPort, RunHooks } from '../model/guard-port.ts'
import type { Settlement } from '../model/settlement.ts'
import { DeliveryBuffer, type DeliveryBufferOptions, oncePerTurn } from './delivery-buffer.ts'
import type { Delivered } from './ordering.ts'
import { PendingDeliveries, type PendingDeliveriesOptions } from './pending-deliveries.ts'

const EXPIRED: Settlement = { kind: 'abandon', reason: 'deadline' }

interface Each extends Delivered {
  readonly id: number
}

const each = (id: number): Each => ({ id, delivery: toDelivery(id) })

type Given = Partial<DeliveryBufferOptions<Each, string> & PendingDeliveriesOptions<Each>> & {
  readonly lingerMs?: number
  readonly batchSize?: number
}

/** A buffer that starts what `findStartable` says, in a guard that never answers. */
function buffering({ lingerMs = 0, batchSize = 3, findStartable, ...given }: Given) {
  const started: number[] = []
  const told: [number, string][] = []
  const { signal } = new AbortController()
  const port = {
    settings: { concurrency: 9, transaction: 'batch' },
    runtime: { monotonic: () => 0, setTimer: () => () => undefined },
    run: () => new Promise(() => undefined),
  } as unknown as GuardPort
  const all = (pending: readonly Each[]) => ({
    ...{ groups: pending.map((one) => [one]), considered: pending.length, blocked: [] },
  })
  const pending = new PendingDeliveries<Each>({
    ...{ port, settings: { lingerMs }, findStartable: findStartable ?? all },
    ...{ hasRoom: () => true, onLingerOver: () => buffer.dispatch() },
  })
  const buffer = new DeliveryBuffer<Each, string>({
    ...{ port, settings: { batchSize }, hasDeadLetterPlace: true, pending },
    signals: { stop: signal, abort: signal },
    onStart: ({ id }) => void started.push(id),
    settle: () => 'told',
    onKnown: () => undefined,
    onSettled: ({ id }, _settlement, answer) => void told.push([id, answer]),
    ...given,
  })
  return { buffer, pending, started, told }
}

test('a delivery that goes to no guard is unsettled until the call to the broker', async () => {
  const broker = Promise.withResolvers<string>()
  const { buffer, started, told } = buffering({ settle: () => broker.promise })
  buffer.settle(each(1), EXPIRED)
  expect([buffer.settling, buffer.running]).toEqual([1, 0])
  let isOver = false
  const ended = buffer.ended().then(() => {
    isOver = true
  })
  await turn()
  expect([isOver, told]).toEqual([false, []])
  broker.resolve('gone')
  await ended
  expect([buffer.settling, told, started]).toEqual([0, [[1, 'gone']], []])
})

test('taking deliveries back starts none of the others', () => {
  const { pending, started } = buffering({})
  pending.add([each(0), each(1)])
  expect(pending.takeBack(({ id }) => id === 0)).toHaveLength(1)
  expect([started, pending.size]).toEqual([[], 1])
})

test('deliveries that cannot start yet fill no batch', () => {
  const { buffer, pending, started } = buffering({
    ...{ batchSize: 2, lingerMs: 20 },
    findStartable: ([first, ...blocked]) => ({
      ...{ groups: first === undefined ? [] : [[first]], considered: 1 + blocked.length, blocked },
    }),
  })
  pending.add([each(0), each(1)])
  buffer.dispatch()
  expect([started, pending.size]).toEqual([[], 2])
})

// Red when the end of a call is not waited for: suspect records of Kafka would start before an offset is committed.
test('a call may have signals of its own, and no delivery starts after it before its end is over', async () => {
  const over = Promise.withResolvers<void>()
  const own = new AbortController()
  const calls = [
    {
      groups: [[each(0)]],
      signals: { stop: own.signal, abort: own.signal },
      onEnded: () => over.promise,
    },
    { groups: [[each(1)]] },
  ]
  const hooks: RunHooks[] = []
  const port = {
    settings: { concurrency: 1, transaction: 'each' },
    runtime: { monotonic: () => 0 },
    run: async (_batch: unknown, given: RunHooks) => {
      hooks.push(given)
      return [EXPIRED]
    },
  } as unknown as GuardPort
  let isOpen = true
  const take = () => {
    const call = isOpen ? calls.shift() : undefined
    isOpen = false
    return call
  }
  const { buffer, started } = buffering({ port, pending: { take } })
  buffer.dispatch()
  await turn()
  expect([started, hooks.map(({ stop }) => stop === own.signal)]).toEqual([[0], [true]])
  isOpen = true
  over.resolve()
  await turn()
  await turn()
  expect([started, hooks.map(({ stop }) => stop === own.signal)]).toEqual([
    [0, 1],
    [true, false],
  ])
})

test('a callback once per turn runs once however often it is asked for, and again in a later turn', async () => {
  let calls = 0
  const ask = oncePerTurn(() => {
    calls += 1
  })
  for (let asked = 0; asked < 3; asked += 1) ask()
  expect(calls).toBe(0)
  await turn()
  expect(calls).toBe(1)
  ask()
  await turn()
  expect(calls).toBe(2)
})
