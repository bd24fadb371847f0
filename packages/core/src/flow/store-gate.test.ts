import { expect, test } from 'vitest'
import { toDelivery } from '../memory/to-delivery.ts'
import type { Availability, GuardPort } from '../model/guard-port.ts'
import type { Runtime } from '../model/runtime.ts'
import { StoreGate } from './store-gate.ts'

function gated() {
  const world = { nowMs: 0, availability: { kind: 'available' } as Availability }
  const runtime = { now: () => world.nowMs } as unknown as Runtime
  const port: Pick<GuardPort, 'availability' | 'runtime'> = {
    runtime,
    availability: () => world.availability,
  }
  return { world, gate: new StoreGate(port) }
}

const error = new Error('gone')
const each = (id: number, orderingKey?: string) => ({
  id,
  delivery: toDelivery(id, { orderingKey }),
})

test('while the store is down one message at a time asks it, and not before its time', () => {
  const { world, gate } = gated()
  expect(gate.look()).toEqual({ kind: 'open' })
  world.availability = { kind: 'down', retryAt: 500 as never, error }
  expect(gate.look()).toEqual({ kind: 'shut', error, waitMs: 500 })
  world.nowMs = 500
  expect(gate.look()).toEqual({ kind: 'probe', error })
  gate.probing()
  expect(gate.look()).toEqual({ kind: 'shut', error, waitMs: 0 })
  gate.answered()
  expect(gate.look()).toEqual({ kind: 'probe', error })
  gate.probing()
  world.availability = { kind: 'available' }
  expect(gate.look()).toEqual({ kind: 'open' })
})

test('of messages from before the outage one group asks the store, and the others wait', () => {
  const { world, gate } = gated()
  const received = [each(0, 'a'), each(1), each(2, 'a')]
  const [first, second, third] = received
  expect(gate.admit(received)).toEqual({ start: received, wait: [], back: [] })
  world.availability = { kind: 'down', retryAt: 500 as never, error }
  expect(gate.admit(received)).toEqual({ start: [], wait: received, back: [] })
  world.nowMs = 500
  expect(gate.admit(received)).toEqual({ start: [first, third], wait: [second], back: [] })
  expect(gate.admit(received)).toEqual({ start: [], wait: received, back: [] })
  gate.answered()
  expect(gate.admit([])).toEqual({ start: [], wait: [], back: [] })
  expect(gate.look().kind).toBe('probe')
})

test('messages that come while the consumer is paused go back, and after a pause one group asks', () => {
  const { world, gate } = gated()
  const received = [each(0, 'a'), each(1), each(2, 'a')]
  const pause = { source: 'handler' } as const
  world.availability = { kind: 'down', retryAt: 500 as never, error, pause }
  expect(gate.look()).toEqual({ kind: 'shut', error, waitMs: 500, isPaused: true })
  expect(gate.admit(received)).toEqual({ start: [], wait: [], back: received })
  world.nowMs = 500
  const [first, second, third] = received
  expect(gate.admit(received)).toEqual({ start: [first, third], wait: [second], back: [] })
})
