import { expect, test } from 'vitest'
import { seededRandom } from '../fixtures/random.ts'
import { toDelivery } from '../memory/to-delivery.ts'
import type { GuardPort, RunHooks } from '../model/guard-port.ts'
import type { Settlement } from '../model/settlement.ts'
import { DeliveryBuffer, type StartLimits } from './delivery-buffer.ts'
import { byOrderingKey, type Delivered } from './ordering.ts'
import { PendingDeliveries, type Startable } from './pending-deliveries.ts'

const ACK: Settlement = { kind: 'ack', by: 'processed' }

interface Each extends Delivered {
  readonly id: number
}

const each = (id: number, orderingKey?: string): Each => ({
  id,
  delivery: toDelivery(id, { orderingKey }),
})

interface Call {
  readonly ids: readonly number[]
  readonly hooks: RunHooks
  readonly end: (settlements: readonly Settlement[]) => void
  readonly fail: (error: unknown) => void
}

/** Takes whole groups from the head of the queue, at most `limits.deliveries` unless the first group is larger. */
function findStartable(pending: readonly Each[], limits: StartLimits): Startable<Each> {
  const groups: (readonly Each[])[] = []
  let count = 0
  for (const group of byOrderingKey(pending)) {
    if (groups.length >= limits.groups) break
    if (groups.length > 0 && count + group.length > limits.deliveries) break
    groups.push(group)
    count += group.length
  }
  const taken = new Set(groups.flat())
  const blocked = pending.filter((one) => !taken.has(one))
  return { groups, considered: pending.length, blocked }
}

/** A buffer whose guard and timers do what the test says. */
function openBuffer(
  transaction: 'each' | 'batch',
  {
    concurrency = 2,
    inHand = 0,
    batchSize = 3,
    lingerMs = 0,
    hasRoom = (): boolean => true,
    clock = { nowMs: 0 },
  } = {},
) {
  const calls: Call[] = []
  const timers: { fire: () => void; isCancelled: boolean }[] = []
  const told: { readonly id: number; readonly settlement: Settlement }[] = []
  const [stop, abort] = [new AbortController(), new AbortController()]
  const setTimer = (fire: () => void): (() => void) => {
    const timer = { fire, isCancelled: false }
    timers.push(timer)
    return () => {
      timer.isCancelled = true
    }
  }
  const run: GuardPort['run'] = (batch, hooks = {}) =>
    new Promise((end, fail) => {
      const ids = batch.map(({ body }) => Number(new TextDecoder().decode(body)))
      calls.push({ ids, hooks, end, fail })
    })
  const port = {
    settings: { concurrency, inHand: Math.max(inHand, concurrency), transaction },
    runtime: { monotonic: () => clock.nowMs, setTimer },
    logger: { error: () => undefined },
    run,
  } as unknown as GuardPort
  const pending = new PendingDeliveries<Each>({
    ...{ port, settings: { lingerMs }, findStartable, hasRoom },
    onLingerOver: () => buffer.dispatch(),
  })
  const buffer = new DeliveryBuffer<Each, void>({
    port,
    settings: { batchSize },
    hasDeadLetterPlace: true,
    signals: { stop: stop.signal, abort: abort.signal },
    pending,
    settle: () => undefined,
    onKnown: () => undefined,
    onSettled: ({ id }, settlement) => void told.push({ id, settlement }),
  })
  return { buffer, pending, calls, timers, stop, told }
}

const turn = (): Promise<void> => new Promise((resolve) => void setImmediate(resolve))

test('no more groups run than the guard has slots, and a freed slot is filled in the next turn', async () => {
  const { buffer, pending, calls, told } = openBuffer('each', { concurrency: 2 })
  pending.add([each(0, 'a'), each(1, 'a'), each(2), each(3)])
  buffer.dispatch()
  expect(calls.map(({ ids }) => ids)).toEqual([[0, 1, 2]])
  calls[0]?.hooks.onSettlement?.(0, ACK)
  await turn()
  // Delivery 1 still runs, so its group keeps the slot.
  expect(calls).toHaveLength(1)
  calls[0]?.hooks.onSettlement?.(2, ACK)
  await turn()
  expect(calls.map(({ ids }) => ids)).toEqual([[0, 1, 2], [3]])
  expect(told.map(({ id }) => id)).toEqual([0, 2])
  expect(pending.size + buffer.running).toBe(2)
})

// Red when it always hands over more: a message behind slow ones met the consumer timeout of RabbitMQ (trap A6).
test('more deliveries than slots are handed over while they are quick', async () => {
  const clock = { nowMs: 0 }
  const { buffer, pending, calls } = openBuffer('each', { concurrency: 1, inHand: 2, clock })
  pending.add([0, 1, 2, 3, 4, 5].map((id) => each(id)))
  const settle = async (call: number, index: number, tookMs: number): Promise<void> => {
    clock.nowMs += tookMs
    calls[call]?.hooks.onSettlement?.(index, ACK)
    await turn()
  }
  const started = (): readonly number[] => calls.flatMap(({ ids }) => ids)
  buffer.dispatch()
  expect(started()).toEqual([0])
  await settle(0, 0, 5)
  expect(started()).toEqual([0, 1, 2])
  await settle(1, 0, 60_000)
  expect(started()).toEqual([0, 1, 2])
  await settle(1, 1, 0)
  expect(started()).toEqual([0, 1, 2, 3])
})

test('a batch starts when it is full or when its first delivery has waited for lingerMs', () => {
  const { buffer, pending, calls, timers } = openBuffer('batch', { batchSize: 2, lingerMs: 20 })
  pending.add([each(0)])
  buffer.dispatch()
  expect(calls).toEqual([])
  pending.add([each(1), each(2)])
  buffer.dispatch()
  expect(calls.map(({ ids }) => ids)).toEqual([[0, 1]])
  // One timer, counted from the first delivery.
  expect(timers).toHaveLength(1)
  timers[0]?.fire()
  expect(calls.map(({ ids }) => ids)).toEqual([[0, 1], [2]])
})

// Red when only the size counts: a guard with a transaction per event waits although its slots are free.
test('a call does not wait for deliveries that the free slots cannot take, or that the broker does not bring', () => {
  const slots = openBuffer('each', { concurrency: 2, batchSize: 5, lingerMs: 1_000 })
  slots.pending.add([each(0)])
  slots.buffer.dispatch()
  expect(slots.calls).toEqual([])
  slots.pending.add([each(1)])
  slots.buffer.dispatch()
  expect(slots.calls.map(({ ids }) => ids)).toEqual([[0, 1]])
  let room = 2
  const broker = openBuffer('batch', { batchSize: 5, lingerMs: 1_000, hasRoom: () => room > 0 })
  for (const id of [0, 1]) {
    expect(broker.calls).toEqual([])
    room -= 1
    broker.pending.add([each(id)])
    broker.buffer.dispatch()
  }
  expect(broker.calls.map(({ ids }) => ids)).toEqual([[0, 1]])
})

test('a timer that waits for a batch is cancelled when nothing is pending any more', () => {
  const { pending, timers } = openBuffer('batch', { batchSize: 5, lingerMs: 20 })
  pending.add([each(0), each(1)])
  expect(pending.takeBack(({ id }) => id === 0).map(({ id }) => id)).toEqual([0])
  expect(timers.map(({ isCancelled }) => isCancelled)).toEqual([false])
  expect(pending.takeBack().map(({ id }) => id)).toEqual([1])
  expect(timers.map(({ isCancelled }) => isCancelled)).toEqual([true])
})

test('after a stop nothing starts, and running deliveries are still settled', async () => {
  const { buffer, pending, calls, stop, told } = openBuffer('each', { concurrency: 1 })
  pending.add([each(0), each(1)])
  buffer.dispatch()
  stop.abort()
  calls[0]?.end([ACK])
  await buffer.ended()
  await turn()
  expect(told).toEqual([{ id: 0, settlement: ACK }])
  expect(calls).toHaveLength(1)
  expect(pending.takeBack().map(({ id }) => id)).toEqual([1])
})

test('a guard that rejects gives its deliveries back as abandoned and frees their slots', async () => {
  const { buffer, pending, calls, told } = openBuffer('each', { concurrency: 1 })
  pending.add([each(0), each(1)])
  buffer.dispatch()
  calls[0]?.fail(new Error('a defect'))
  await turn()
  await turn()
  expect(told).toMatchObject([{ id: 0, settlement: { kind: 'abandon', reason: 'commit-unknown' } }])
  expect(calls.map(({ ids }) => ids)).toEqual([[0], [1]])
})

test.each(Array.from({ length: 50 }, (_, seed) => seed))(
  'each delivery is run at most once and settled or taken back exactly once, in the order of its group: seed %i',
  async (seed) => {
    const random = seededRandom(seed)
    const below = (limit: number): number => Math.floor(random() * limit)
    const transaction = random() < 0.5 ? 'each' : 'batch'
    const concurrency = 1 + below(4)
    const lingerMs = below(2) * 20
    const made = { concurrency, batchSize: 1 + below(5), lingerMs }
    const { buffer, pending, calls, timers, told } = openBuffer(transaction, made)
    const all = Array.from({ length: 40 }, (_, id) =>
      each(id, random() < 0.5 ? `key-${below(4)}` : undefined),
    )
    const keyOf = new Map(all.map(({ id, delivery }) => [id, delivery.orderingKey ?? id]))
    const back: number[] = []
    const known = new Set<number>()
    let added = 0

    const settleOne = (call: Call | undefined): void => {
      const open = call?.ids.flatMap((id, index) => (known.has(id) ? [] : [{ id, index }])) ?? []
      const next = open[below(open.length)]
      if (call === undefined || next === undefined) return
      known.add(next.id)
      call.hooks.onSettlement?.(next.index, ACK)
      // A guard may answer a settlement twice; the second answer changes nothing.
      if (random() < 0.2) call.hooks.onSettlement?.(next.index, ACK)
      if (open.length === 1) call.end(call.ids.map(() => ACK))
    }

    const steps = [
      (): void => {
        const more = all.slice(added, added + 1 + below(5))
        added += more.length
        if (more.length > 0) pending.add(more)
      },
      () => buffer.dispatch(),
      () => settleOne(calls[below(calls.length)]),
      () =>
        timers
          .filter(({ isCancelled }) => !isCancelled)
          .at(-1)
          ?.fire(),
      (): void => {
        const one = below(all.length)
        back.push(...pending.takeBack(({ id }) => id === one).map(({ id }) => id))
      },
    ]
    for (let step = 0; step < 200; step += 1) {
      steps[below(steps.length)]?.()
      const running = calls.map(({ ids }) => ids.filter((id) => !known.has(id)))
      const busy = running.map((ids) =>
        transaction === 'batch'
          ? Math.min(1, ids.length)
          : new Set(ids.map((id) => keyOf.get(id))).size,
      )
      expect(busy.reduce((sum, slots) => sum + slots, 0)).toBeLessThanOrEqual(concurrency)
      if (random() < 0.3) await turn()
    }
    back.push(...pending.takeBack().map(({ id }) => id))
    for (const call of calls) while (call.ids.some((id) => !known.has(id))) settleOne(call)
    await buffer.ended()

    const run = calls.flatMap(({ ids }) => ids)
    expect(new Set(run).size).toBe(run.length)
    expect(told.map(({ id }) => id).toSorted((a, b) => a - b)).toEqual(
      run.toSorted((a, b) => a - b),
    )
    expect([...run, ...back].toSorted((a, b) => a - b)).toEqual(
      Array.from({ length: added }, (_, id) => id),
    )
    for (const key of new Set(keyOf.values())) {
      const ofGroup = run.filter((id) => keyOf.get(id) === key)
      expect(ofGroup).toEqual(ofGroup.toSorted((a, b) => a - b))
    }
    const { running, settling } = buffer
    expect({ pending: pending.size, running, settling }).toEqual({
      ...{ pending: 0, running: 0, settling: 0 },
    })
  },
)
