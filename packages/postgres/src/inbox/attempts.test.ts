import type { Known } from '@onceward/core'
import { newDelivery, newEvent } from '@onceward/testing/conformance'
import { describe, expect, it, test } from 'vitest'
import { eventParameter } from '../driver/rows.ts'
import { scriptedDriver, statements } from '../fixtures/scripted-driver.ts'
import type { KnownRow } from '../statements/attempts.ts'
import { storeDelivery } from '../statements/delivery-columns.ts'
import { classify, count, suspect } from './attempts.ts'

const [first, second, third] = [newEvent(), newEvent(), newEvent()] as const
const ids = (...events: readonly { readonly id: string }[]): string =>
  `{${events.map(({ id }) => id).join(',')}}`

const row = (over: Partial<KnownRow> = {}): KnownRow => ({
  ...{ id: first.id, state: 'w', fingerprint: '7', attempt: 1, noVerdict: 0, alone: false },
  ...{ parked: false, published: false, reason: null, remainingMs: 0, ageMs: 60_000 },
  ...{ hasResult: false, result: null },
  ...over,
})
const locked = (code: string): Error => Object.assign(new Error('no lock'), { code })
const token = expect.stringMatching(/^[0-9a-f-]{36}$/)

describe('the stored state of an event', () => {
  const fingerprint = 7n
  it.each<[string, Partial<KnownRow>, object]>([
    ['done', { state: 'd', ageMs: 8 }, { kind: 'done', ageMs: 8 }],
    [
      'done with a result',
      { state: 'd', hasResult: true, result: [1] },
      { kind: 'done', ageMs: 60_000, result: [1] },
    ],
    [
      'done with the result null',
      { state: 'd', hasResult: true },
      { kind: 'done', ageMs: 60_000, result: null },
    ],
    [
      'dead',
      { state: 'x', reason: 'fatal', published: true },
      { kind: 'dead', reason: 'fatal', attempt: 1, published: true },
    ],
    [
      'dead without a reason',
      { state: 'x' },
      { kind: 'dead', reason: 'attempts-spent', attempt: 1, published: false },
    ],
    [
      'waiting',
      { state: 'w', remainingMs: 9, alone: true },
      { kind: 'waiting', remainingMs: 9, attempt: 1, alone: true },
    ],
    ['running', { state: 'r', ageMs: 8 }, { kind: 'running', attempt: 1, ageMs: 8 }],
  ])('%s', async (_, over, known) => {
    const { asked, context } = scriptedDriver([row(over)])
    const expected = { fingerprint, ...known } as Known
    expect(await classify(context, [second, first])).toEqual([{ kind: 'absent' }, expected])
    expect(asked).toEqual([
      { by: 'query', text: statements.classify, values: [ids(second, first)] },
    ])
  })
})

describe('the count of suspects', () => {
  it('is of those without a row, and shares the wait among them', async () => {
    const { asked, context } = scriptedDriver([second.id])
    expect(await suspect(context, [first, second], 1_001)).toEqual({
      kind: 'answered',
      counted: [undefined, { event: second, token, attempt: 1 }],
    })
    const [rows, consumer, boundMs] = asked[0]?.values ?? []
    expect(JSON.parse(String(rows))).toEqual([
      { ...eventParameter(first), token },
      { ...eventParameter(second), token },
    ])
    expect([asked[0]?.text, consumer, boundMs]).toEqual([statements.suspect, '5', '500'])
  })

  it.each([
    [20, 1, '20'],
    [9, 2, '5'],
    [100, 0, '100'],
  ])(
    'waits at least five milliseconds for a row: %s ms, %s events',
    async (waitMs, events, bound) => {
      const { asked, context } = scriptedDriver()
      await suspect(context, [first, second].slice(0, events), waitMs)
      expect(asked[0]?.values?.[2]).toBe(bound)
    },
  )

  it('answers that a row is held, and fails for any other error', async () => {
    expect(await suspect(scriptedDriver(locked('55P03')).context, [first], 9)).toEqual({
      kind: 'held',
    })
    await expect(suspect(scriptedDriver(locked('57P01')).context, [first], 9)).rejects.toThrow()
  })
})

describe('the count of one more attempt', () => {
  it('is of the due rows that this transaction has locked', async () => {
    const { asked, context } = scriptedDriver([first.id, second.id], [row(), row({ id: third.id })])
    expect(await count(context, [first, second, third], 'together')).toEqual([
      { kind: 'counted', attempt: 2, token },
      { kind: 'changed' },
      { kind: 'held' },
    ])
    expect(asked.map(({ by, text }) => [by, text])).toEqual([
      ['short', statements.lockForCount],
      ['short', statements.classify],
      ['short', statements.count],
    ])
    expect(asked[0]?.values).toEqual([ids(first, second, third)])
    const [counted, consumer] = asked[2]?.values ?? []
    expect(consumer).toBe('5')
    expect(JSON.parse(String(counted))).toEqual([
      { ...eventParameter(first), kind: 'counted', attempt: 2, token },
    ])
  })

  it.each<[string, Partial<KnownRow>, 'together' | 'alone', object]>([
    ['a live owner', { state: 'r', ageMs: 4_999 }, 'alone', { kind: 'held' }],
    ['a dead owner, in company', { state: 'r' }, 'together', { kind: 'changed' }],
    ['a dead owner, alone', { state: 'r' }, 'alone', { kind: 'counted', attempt: 2, token }],
    ['it is done', { state: 'd' }, 'alone', { kind: 'changed' }],
    ['it is not due', { remainingMs: 1 }, 'alone', { kind: 'changed' }],
  ])('looks at the state: %s', async (_, over, run, answer) => {
    const { asked, context } = scriptedDriver([first.id], [row(over)])
    expect(await count(context, [first], run)).toEqual([answer])
    expect(asked).toHaveLength('attempt' in answer ? 3 : 2)
  })

  it.each<[string, Partial<KnownRow>]>([
    ['attempts-spent', { attempt: 3 }],
    ['no-verdict', { noVerdict: 9 }],
  ])('buries what has used them up, with its delivery: %s', async (reason, over) => {
    const { asked, context } = scriptedDriver([first.id], [row({ state: 'r', ...over })])
    const { attempt = 1 } = over
    const answer = { kind: 'buried', reason, attempt }
    expect(await count(context, [first], 'alone')).toEqual([answer])
    expect(asked.map(({ text }) => text).slice(2)).toEqual([statements.buryCounted])
    expect(JSON.parse(String(asked[2]?.values?.[0]))).toEqual([
      { ...eventParameter(first), ...storeDelivery(first.delivery, 1_000), ...answer },
    ])
  })
})

test('a large delivery that is buried by a count is stored in pieces, in the same transaction', async () => {
  const delivery = newDelivery({ body: Buffer.alloc(5 * 1024 * 1024, 'x') })
  const event = newEvent({ delivery })
  const { asked, context } = scriptedDriver([event.id], [row({ id: event.id, attempt: 3 })])
  await count({ ...context, maxStoredBytes: 64 * 1024 * 1024 }, [event], 'alone')
  expect(asked.map(({ by, text }) => [by, text]).slice(2)).toEqual([
    ['short', statements.buryCounted],
    ...Array.from({ length: 3 }, () => ['short', statements.bodies.event.writePart]),
  ])
  expect(asked.slice(3).map(({ values }) => values?.slice(0, 2))).toEqual([
    [event.id, '0'],
    [event.id, '1'],
    [event.id, '2'],
  ])
})
