import { expect, test, vi } from 'vitest'
import { createInFlight } from '../concurrency/in-flight.ts'
import { Clock } from '../fixtures/clock.ts'
import { newEvent } from '../fixtures/inbox.ts'
import type { DeliveryGroup } from './receive.ts'
import { takeOff } from './take-off.ts'

function setUp() {
  const inFlight = createInFlight(new Clock().runtime)
  const [first, second] = [0, 1].map((index): DeliveryGroup => {
    const member = { event: newEvent(), payload: index, lane: undefined, suspect: false }
    return { index, member, copies: [] }
  }) as [DeliveryGroup, DeliveryGroup]
  const flight = takeOff(inFlight, [first, second])
  const flying = (): readonly boolean[] =>
    [first, second].map(({ member }) => inFlight.has(member.event.id))
  return { first, second, flight, flying }
}

test('an event is in flight until it has its settlement', async () => {
  const { first, flight, flying, second } = setUp()
  expect(flying()).toEqual([true, true])
  const settling = Promise.withResolvers<void>()
  flight.conclude(first.member, () => settling.promise)
  flight.conclude(second.member, () => undefined)
  expect(flying()).toEqual([true, false])
  settling.resolve()
  await flight.land()
  expect(flying()).toEqual([false, false])
})

test('an event is concluded once', () => {
  const { first, flight } = setUp()
  const toSettled = vi.fn()
  flight.conclude(first.member, toSettled)
  flight.conclude(first.member, toSettled)
  expect(toSettled.mock.calls).toEqual([[first]])
})

test('an event whose settlement fails is no longer in flight', async () => {
  const { first, flight, flying, second } = setUp()
  const failing = (): never => {
    throw new Error('a defect')
  }
  expect(() => flight.conclude(first.member, failing)).toThrow('a defect')
  flight.conclude(second.member, () => Promise.reject(new Error('a defect')))
  await expect(flight.land()).rejects.toThrow('a defect')
  expect(flying()).toEqual([false, false])
})

test('events that got no outcome end their flight with the call, so that their next delivery need not wait', () => {
  const { first, flight, flying, second } = setUp()
  flight.conclude(first.member, () => undefined)
  expect(flight.unconcluded()).toEqual([second.member])
  expect(flight.land()).toBeUndefined()
  expect(flying()).toEqual([false, false])
})
