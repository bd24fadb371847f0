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

const eventOf = (delivery: Delivery) => {
  const [id, key, fingerprint] = ['id' as EventId, 'key' as EventKey, 1n as Fingerprint]
  const event = { id, key, fingerprint, delivery }
  return toGuardEvent({ event, payload: { a: 1 }, lane: undefined, suspect: false }, 1)
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
