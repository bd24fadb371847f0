import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { describe, expect, it } from 'vitest'
import { toDelivery } from '../memory/to-delivery.ts'
import type { EventId, EventKey, Fingerprint } from './brands.ts'
import { copyDelivery, type Delivery } from './delivery.ts'
import { toGuardEvent } from './in-flight-event.ts'

/** A delivery that says how often its envelope was made. */
function lazyDelivery(): { readonly delivery: Delivery; readonly made: () => number } {
  let made = 0
  const delivery = Object.defineProperty(toDelivery({ a: 1 }), 'envelope', {
    enumerable: true,
    get: () => {
      made += 1
      return Uint8Array.of(made)
    },
  })
  return { delivery, made: () => made }
}

/** Each one is made of the one before. */
function copies(delivery: Delivery, count: number) {
  let last: Delivery = copyDelivery(delivery, { deliveryCount: 1 })
  const first = new WeakRef(last)
  for (let n = 2; n <= count; n += 1) last = copyDelivery(last, { deliveryCount: n })
  return { first, last }
}

const eventOf = (delivery: Delivery) => {
  const [id, key, fingerprint] = ['id' as EventId, 'key' as EventKey, 1n as Fingerprint]
  const event = { id, key, fingerprint, delivery }
  return toGuardEvent({ index: 0, event, payload: { a: 1 }, lane: undefined, suspect: false }, 1)
}

// Red with getters on the prototype: a handler that is called with `{ ...event }` would miss the body.
describe('a spread has the values of the getters', () => {
  it('of an event', () => {
    const { delivery, made } = lazyDelivery()
    const event = eventOf(delivery)
    expect(made()).toBe(0)
    expect({ ...event }).toMatchObject({
      body: delivery.body,
      envelope: Uint8Array.of(1),
      key: 'key',
    })
    expect(event.body).not.toBe(delivery.body)
    expect(event.body).toBe(event.body)
  })

  it('of a copied delivery', () => {
    const { delivery, made } = lazyDelivery()
    const copy = copyDelivery(delivery, { redelivered: true })
    expect(made()).toBe(0)
    expect({ ...copy }).toEqual({ ...delivery, redelivered: true, envelope: Uint8Array.of(1) })
  })

  // Red with private fields, which only the object itself has.
  it('and so have objects that inherit an event, or stand before it', () => {
    const event = eventOf(lazyDelivery().delivery)
    for (const other of [Object.create(event) as typeof event, new Proxy(event, {})]) {
      expect(other.body).toEqual(event.body)
    }
  })

  it('unless it has been given values of its own, as spies in tests do', () => {
    const event = eventOf(lazyDelivery().delivery)
    const body = Uint8Array.of(9)
    expect(Object.defineProperty(event, 'body', { value: body }).body).toBe(body)
  })
})

// Red when each copy keeps the one that it was made of. A RabbitMQ message that is held again and again is copied each
// time: its copies fill the memory, and its envelope overflows the stack.
it('a copy of a copy keeps the original alone', async () => {
  const { delivery, made } = lazyDelivery()
  const { first, last } = copies(delivery, 20_000)
  expect([last.deliveryCount, made()]).toEqual([20_000, 0])
  expect(last.envelope).toEqual(Uint8Array.of(1))
  setFlagsFromString('--expose-gc')
  const collectGarbage: () => void = runInNewContext('gc')
  await expect
    .poll(() => {
      collectGarbage()
      return first.deref() === undefined
    })
    .toBe(true)
  expect(last.body).toBe(delivery.body)
})

it('a copy of an event reads the envelope of its delivery', () => {
  const { delivery } = lazyDelivery()
  const event = eventOf(copyDelivery(delivery, { redelivered: true }))
  expect(copyDelivery(event, {}).envelope).toEqual(Uint8Array.of(1))
})
