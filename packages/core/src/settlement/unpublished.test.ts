import { expect, test } from 'vitest'
import { toDelivery } from '../memory/to-delivery.ts'
import type { Delivery } from '../model/delivery.ts'
import { Unpublished } from './unpublished.ts'

const verdict = (attempt = 1) => ({ kind: 'dead', reason: 'fatal', attempt }) as const
const RETRY = { kind: 'retry', cause: 'dead-letter-place-down' } as const
const source = { broker: 'kafka', queue: 'orders', incarnation: 'a:1', position: '0/7' }
const at = (over: Partial<Delivery['source']> = {}): Delivery =>
  toDelivery(1, { source: { ...source, ...over }, raw: {} })

test('a verdict is found by the position of its message, whatever object the client made of it', () => {
  const unpublished = new Unpublished()
  expect(unpublished.of(at())).toBeUndefined()
  unpublished.tried(at(), verdict(), RETRY)
  expect(unpublished.of(at())).toEqual(verdict())
  for (const other of [{ position: '0/8' }, { queue: 'refunds' }, { incarnation: 'a:2' }]) {
    expect(unpublished.of(at(other))).toBeUndefined()
  }
  unpublished.tried(at(), verdict(), { kind: 'published' })
  expect(unpublished.of(at())).toBeUndefined()
})

test('without a position it is found by the object alone: an equal message is another one', () => {
  const unpublished = new Unpublished()
  const inHand = at({ position: undefined })
  unpublished.tried(inHand, verdict(), RETRY)
  expect(unpublished.of({ ...inHand, redelivered: true })).toEqual(verdict())
  expect(unpublished.of(at({ position: undefined }))).toBeUndefined()
  unpublished.tried(inHand, verdict(), { kind: 'published' })
  expect(unpublished.of(inHand)).toBeUndefined()
})

test('without a position and without an object nothing is remembered', () => {
  const unpublished = new Unpublished()
  for (const raw of [undefined, null, 'text']) {
    const delivery = toDelivery(1, { source: { broker: 'own', queue: 'q' }, raw })
    unpublished.tried(delivery, verdict(), RETRY)
    expect(unpublished.of(delivery)).toBeUndefined()
    unpublished.tried(delivery, verdict(), { kind: 'published' })
  }
})

test('a thousand are remembered by position, and of more the ones that were tried last', () => {
  const unpublished = new Unpublished()
  const nth = (n: number): Delivery => at({ position: `0/${n}` })
  for (let n = 0; n < 1_000; n += 1) unpublished.tried(nth(n), verdict(n), RETRY)
  unpublished.tried(nth(0), verdict(7), RETRY)
  unpublished.tried(nth(1_000), verdict(8), RETRY)
  expect(unpublished.of(nth(0))).toEqual(verdict(7))
  expect(unpublished.of(nth(1))).toBeUndefined()
  expect(unpublished.of(nth(2))).toEqual(verdict(2))
  expect(unpublished.of(nth(1_000))).toEqual(verdict(8))
})
