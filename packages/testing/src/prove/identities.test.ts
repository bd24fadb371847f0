import { describe, expect, test } from 'vitest'
import { Identities } from './identities.ts'

const of = (make: (n: number) => unknown, count = 3): Identities =>
  new Identities(Array.from({ length: count }, (_, index) => make(index + 1)))

describe('the keys of count', () => {
  test.each([
    ['a value of the body', { 'order-2': 1 }, [[2, 1]]],
    ['a number, though another field has it too', { 1002: 2 }, [[2, 2]]],
    ['the number of the event at its end', { 'charge-of-3': 1 }, [[3, 1]]],
    ['no effect', { 'order-1': 0 }, []],
  ])('stand for events: %s', (_title, counts, events) => {
    const bodies = of((n) => ({
      id: `order-${n}`,
      number: 1_000 + n,
      cents: 1_003 - n,
      of: 'shop',
    }))
    const { byEvent, unknown } = bodies.effectsOf(counts)
    expect([...byEvent]).toEqual(events)
    expect(unknown).toEqual([])
  })

  test('that stand for no event are told', () => {
    expect(of((n) => ({ id: `order-${n}` })).effectsOf({ 'order-9': 1 }).unknown).toEqual([
      'order-9',
    ])
  })

  test('are texts for a body that is a text', () => {
    expect([...of((n) => `text ${n}`).effectsOf({ 'text 3': 1 }).byEvent]).toEqual([[3, 1]])
  })
})

test('numbers recognize events where there is no text', () => {
  expect(of((n) => ({ n, id: `a-${n}` }), 1).recognizable()).toEqual([['a-1', 1]])
  expect(of((n) => ({ n }), 2).recognizable()).toEqual([
    ['1', 1],
    ['2', 2],
  ])
})
