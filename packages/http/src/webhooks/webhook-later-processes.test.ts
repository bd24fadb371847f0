import { type Delivery, StoreUnavailableError } from '@onceward/core'
import { type MemoryInbox, memoryInbox } from '@onceward/core/memory'
import { until } from '@onceward/testing'
import { turn } from '@onceward/testing/adapter'
import { describe, expect, test, vi } from 'vitest'
import {
  changedInbox,
  deliver,
  type Given,
  laterGuard,
  whileTimePasses,
} from '../fixtures/later.ts'

const accepted = { status: 202, text: '' }

describe('the process that has accepted a delivery', () => {
  /** A guard whose poller is dead. */
  const accepting = (memory: MemoryInbox<undefined>, handler = vi.fn()) =>
    laterGuard(handler, { inbox: changedInbox(memory, () => ({ due: async () => [] })) })

  test('may die: another one runs it, although no request comes there', async () => {
    const memory = memoryInbox()
    const [dead, handler] = [vi.fn(), vi.fn()]
    const { guard } = accepting(memory, dead)
    expect(await deliver(guard, 'e')).toMatchObject(accepted)
    const other = laterGuard(handler, {}, memory)
    await whileTimePasses(other.clock, () => handler.mock.calls.length === 1)
    expect(handler.mock.calls[0]?.[0]).toMatchObject({ key: 'e', payload: { cents: 500 } })
    expect(dead).not.toHaveBeenCalled()
    await Promise.all([guard.close(), other.guard.close()])
  })

  test('may be one of many that look for it at once', async () => {
    const memory = memoryInbox()
    const { guard } = accepting(memory)
    const ids = Array.from({ length: 30 }, (_, index) => `e${index}`)
    for (const id of ids) await deliver(guard, id)
    const ran: string[] = []
    const others = Array.from({ length: 4 }, () =>
      laterGuard(({ key }) => void ran.push(key), {}, memory),
    )
    await whileTimePasses(
      {
        advance: (ms: number) => Promise.all(others.map(({ clock }) => clock.advance(ms))),
      } as never,
      () => ran.length >= 30,
    )
    await Promise.all([guard, ...others.map((each) => each.guard)].map((each) => each.close()))
    expect(ran.toSorted()).toEqual(ids.toSorted())
  })

  test('waits at its end for the runs in progress, and accepts nothing more', async () => {
    const gate = Promise.withResolvers<void>()
    const { guard, records } = laterGuard(() => gate.promise)
    await deliver(guard, 'e')
    await until(() => guard.health().state === 'ready' && records.length === 1)
    await turn()
    let isOver = false
    const closing = guard.close().then(() => {
      isOver = true
    })
    await turn()
    expect(isOver).toBe(false)
    expect(guard.health().state).toBe('closed')
    expect(await deliver(guard, 'f')).toMatchObject({ status: 503 })
    gate.resolve()
    await closing
    expect(
      records.some(({ parked, settlement }) => parked === true && settlement.kind === 'ack'),
    ).toBe(true)
  })

  test('leaves no timer behind, also if its stores were never opened', async () => {
    const { clock, guard } = laterGuard(() => undefined)
    expect(clock.asked.every(({ keepAlive }) => keepAlive === false)).toBe(true)
    await guard.close()
    expect(clock.timers).toBe(0)
  })

  test('opens its stores again and again until it succeeds', async () => {
    const memory = memoryInbox()
    await deliver(accepting(memory).guard, 'e')
    let failures = 3
    const inbox = {
      open: async (registration: Parameters<typeof memory.open>[0]) => {
        failures -= 1
        if (failures >= 0) throw new StoreUnavailableError('down')
        return memory.open(registration)
      },
    }
    const handler = vi.fn()
    const { clock, guard, lines } = laterGuard(handler, { inbox })
    await whileTimePasses(clock, () => handler.mock.calls.length === 1)
    expect(
      lines.filter(([, , text]) => /cannot run accepted deliveries yet/.test(text)),
    ).toHaveLength(3)
    await guard.close()
  })

  test('tells what waits', async () => {
    const figures = { deadLetters: {}, parked: 3, parkedForMs: 700, tables: [] }
    const inbox = changedInbox(memoryInbox(), () => ({ figures: async () => figures }))
    const { clock, guard } = laterGuard(() => undefined, { inbox })
    expect(guard.health()).not.toHaveProperty('waiting')
    await whileTimePasses(clock, () => guard.health().waiting !== undefined)
    expect(guard.health().waiting).toEqual({ deliveries: 3, dueForMs: 700 })
    await guard.close()
  })
})

test('an event that a newer version has stored is retried, and not dead-lettered at once', async () => {
  const memory = memoryInbox()
  const envelope = Uint8Array.of(99)
  const newer = changedInbox(memory, (session) => ({
    due: async () => [],
    park: (events, waitMs) => {
      const older = ({ delivery: { raw: _, ...delivery } }: { delivery: Delivery }) => ({
        delivery: { ...delivery, envelope },
      })
      return session.park(
        events.map((event) => ({ ...event, ...older(event) })),
        waitMs,
      )
    },
  }))
  const first = laterGuard(vi.fn(), { inbox: newer })
  await deliver(first.guard, 'e')
  const handler = vi.fn()
  const { clock, guard, records } = laterGuard(handler, {}, memory)
  await whileTimePasses(clock, () => records.length > 0)
  expect(records[0]?.settlement).toMatchObject({ kind: 'defer', reason: 'failed' })
  expect(String(Object(records[0]?.settlement).error)).toMatch(/Update onceward/)
  expect(handler).not.toHaveBeenCalled()
  await Promise.all([first.guard.close(), guard.close()])
})

test('a guard that runs at once answers 200 for an event that another one has run later', async () => {
  const memory = memoryInbox()
  const { guard, records } = laterGuard(() => undefined, {}, memory)
  await deliver(guard, 'e')
  await until(() => records.length === 2)
  const handler = vi.fn()
  const now = laterGuard(handler, { run: 'now' } as Given, memory)
  expect(await deliver(now.guard, 'e')).toMatchObject({ status: 200 })
  expect(handler).not.toHaveBeenCalled()
  await Promise.all([guard.close(), now.guard.close()])
})

test('a guard that runs at once runs an event that another one has accepted and not run', async () => {
  const memory = memoryInbox()
  const first = laterGuard(vi.fn(), {
    inbox: changedInbox(memory, () => ({ due: async () => [] })),
  })
  await deliver(first.guard, 'e')
  const handler = vi.fn()
  const now = laterGuard(handler, { run: 'now' } as Given, memory)
  expect(await deliver(now.guard, 'e')).toMatchObject({ status: 200 })
  expect(await deliver(first.guard, 'e')).toMatchObject(accepted)
  expect(handler).toHaveBeenCalledTimes(1)
  await Promise.all([first.guard.close(), now.guard.close()])
})
