import { expect, test } from 'vitest'
import { toDelivery } from '../memory/to-delivery.ts'
import type { EventId, EventKey, Fingerprint } from './brands.ts'
import { addTime, type InFlightEvent, type Timings, toGuardEvent } from './in-flight-event.ts'

function member(timings?: Timings): InFlightEvent {
  const delivery = {
    ...toDelivery({ a: 1 }, { headers: { h: '1' }, messageId: 'm-1', orderingKey: 'lane' }),
    ...{ contentType: 'application/json', deliveryCount: 3, redelivered: true, raw: { own: 1 } },
    producedAt: new Date(7),
  }
  const identity = { id: 'id' as EventId, key: 'k' as EventKey, fingerprint: 1n as Fingerprint }
  const event = { ...identity, tenant: 'acme' as EventKey, delivery }
  return { index: 0, event, payload: { a: 1 }, lane: undefined, suspect: false, timings }
}

test('a handler sees its delivery, and changes nothing of it', () => {
  const { event, ...rest } = member()
  const seen = toGuardEvent({ event, ...rest }, 2)
  expect(seen).toMatchObject({
    ...{ key: 'k', tenant: 'acme', idempotencyKey: 'id', attempt: 2, payload: { a: 1 } },
    ...{ messageId: 'm-1', orderingKey: 'lane', contentType: 'application/json' },
    ...{ deliveryCount: 3, redelivered: true, raw: event.delivery.raw, headers: { h: '1' } },
    ...{ source: event.delivery.source, producedAt: new Date(7) },
  })
  seen.producedAt?.setTime(0)
  Object.assign(seen.headers, { h: '2' })
  Object.assign(seen.source, { queue: 'elsewhere' })
  expect(event.delivery).toEqual(member().event.delivery)
})

test('an event without a time has none', () => {
  const { event, ...rest } = member()
  const delivery = { ...event.delivery, producedAt: undefined }
  expect(toGuardEvent({ event: { ...event, delivery }, ...rest }, 1).producedAt).toBeUndefined()
})

test('the payload of a run may differ from that of the event', () => {
  expect(toGuardEvent(member(), 1, { a: 2 }).payload).toEqual({ a: 2 })
})

test('times are added up for the events that are observed', () => {
  const timings: Timings = {}
  const members = [member(), member(timings)]
  addTime(members, 'claimMs', 5)
  addTime(members, 'claimMs', 2)
  addTime(members, 'commitMs', 1)
  expect(timings).toEqual({ claimMs: 7, commitMs: 1 })
  expect(members[0]?.timings).toBeUndefined()
})
