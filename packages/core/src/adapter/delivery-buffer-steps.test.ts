import { setImmediate as turn } from 'node:timers/promises'
import { expect, test } from 'vitest'
import { toDelivery } from '../memory/to-delivery.ts'
import type { GuardPort } from '../model/guard-port.ts'
import type { Settlement } from '../model/settlement.ts'
import { DeliveryBuffer, type DeliveryBufferOptions, oncePerTurn } from './delivery-buffer.ts'
import type { Delivered } from './ordering.ts'

const EXPIRED: Settlement = { kind: 'abandon', reason: 'deadline' }

interface Each extends Delivered {
  readonly id: number
}

const each = (id: number): Each => ({ id, delivery: toDelivery(id) })

/** A buffer that starts what `findStartable` says, in a guard that never answers. */
function buffering({
  lingerMs = 0,
  batchSize = 3,
  ...given
}: Partial<DeliveryBufferOptions<Each, string>> & { lingerMs?: number; batchSize?: number }) {
  const started: number[] = []
  const told: [number, string][] = []
  const { signal } = new AbortController()
  const port = {
    settings: { concurrency: 9, transaction: 'batch' },
    runtime: { monotonic: () => 0, setTimer: () => () => undefined },
    run: () => new Promise(() => undefined),
  } as unknown as GuardPort
  const buffer = new DeliveryBuffer<Each, string>({
    ...{ port, settings: { batchSize, lingerMs }, hasDeadLetterPlace: true },
    signals: { stop: signal, abort: signal },
    findStartable: (pending) => ({
      ...{ groups: pending.map((one) => [one]), considered: pending.length, blocked: [] },
    }),
    hasRoom: () => true,
    onStart: ({ id }) => void started.push(id),
    settle: () => 'told',
    onKnown: () => undefined,
    onSettled: ({ id }, _settlement, answer) => void told.push([id, answer]),
    ...given,
  })
  return { buffer, started, told }
}

test('a delivery that no guard is handed is in hand until the broker was told', async () => {
  const broker = Promise.withResolvers<string>()
  const { buffer, started, told } = buffering({ settle: () => broker.promise })
  buffer.settle(each(1), EXPIRED)
  expect([buffer.settling, buffer.undecided]).toEqual([1, 0])
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
  const { buffer, started } = buffering({})
  buffer.add([each(0), each(1)])
  expect(buffer.takeBack(({ id }) => id === 0)).toHaveLength(1)
  expect([started, buffer.unstarted]).toEqual([[], 1])
})

test('deliveries that cannot start yet fill no batch', () => {
  const { buffer, started } = buffering({
    ...{ batchSize: 2, lingerMs: 20 },
    findStartable: ([first, ...blocked]) => ({
      ...{ groups: first === undefined ? [] : [[first]], considered: 1 + blocked.length, blocked },
    }),
  })
  buffer.add([each(0), each(1)])
  buffer.dispatch()
  expect([started, buffer.unstarted]).toEqual([[], 2])
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
