import { newDelivery, newEvent } from '@onceward/testing/conformance'
import { describe, expect, it, test } from 'vitest'
import { eventParameter } from '../driver/rows.ts'
import { type ScriptedAnswer, scriptedDriver, statements } from '../fixtures/scripted-driver.ts'
import type { KnownRow } from '../statements/attempts.ts'
import { storeDelivery } from '../statements/delivery-columns.ts'
import { park } from './parking.ts'

const MIB = 1024 * 1024
const event = newEvent()
const fingerprint = event.fingerprint.toString()
const row = (over: Partial<KnownRow> = {}): KnownRow => ({
  ...{ id: event.id, state: 'w', fingerprint, attempt: 1, noVerdict: 0, alone: false },
  ...{ parked: false, published: false, reason: null, remainingMs: 0, ageMs: 60_000 },
  ...{ hasResult: false, result: null },
  ...over,
})
const locked = (code: string): Error => Object.assign(new Error('no lock'), { code })
const { classify, park: insert, parkKnown } = statements

/** Parks one event, and tells what was asked. */
async function parking(...answers: readonly ScriptedAnswer[]) {
  const { asked, context } = scriptedDriver(...answers)
  const [answer] = await park(context, [event], 1_000)
  return { answer, asked, texts: asked.map(({ text }) => text) }
}

describe('an event to be parked', () => {
  it('that is new is stored with its delivery, on disk', async () => {
    const { answer, asked } = await parking([event.id])
    expect(answer).toEqual({ kind: 'parked' })
    expect(asked).toMatchObject([{ by: 'durable', text: insert }])
    const [rows, consumer, boundMs] = asked[0]?.values ?? []
    expect([consumer, boundMs]).toEqual(['5', '1000'])
    expect(JSON.parse(String(rows))).toEqual([
      { ...eventParameter(event), ...storeDelivery(event.delivery, 1_000) },
    ])
  })

  it.each(['w', 'r'] as const)('that failed before keeps its attempts: state %s', async (state) => {
    const { answer, asked, texts } = await parking([], [row({ state })], [event.id])
    expect([answer, texts]).toEqual([{ kind: 'parked' }, [insert, classify, parkKnown]])
    expect(asked[1]?.values).toEqual([`{${event.id}}`])
    expect(JSON.parse(String(asked[2]?.values?.[0]))).toMatchObject([{ stored: fingerprint }])
  })

  it.each<[string, Partial<KnownRow>]>([
    ['done', { state: 'd' }],
    ['dead', { state: 'x', reason: 'fatal' }],
    ['parked already', { parked: true }],
    ['parked already, and running', { parked: true, state: 'r' }],
    ['another payload', { fingerprint: (event.fingerprint ^ 0xff00n).toString() }],
  ])('is left as it is: %s', async (_, over) => {
    const { answer, texts } = await parking([], [row(over)])
    expect([answer?.kind, texts]).toEqual(['known', [insert, classify]])
  })

  it('is tried again when its row has gone or changed, four times at most', async () => {
    const gone = await parking([], [], [event.id])
    expect([gone.answer, gone.texts]).toEqual([{ kind: 'parked' }, [insert, classify, insert]])
    const changing = await parking(...Array.from({ length: 9 }, () => [[], [row()], []]).flat())
    expect(changing.answer).toEqual({ kind: 'held' })
    expect(changing.texts).toHaveLength(12)
  })

  it('is held when its row stays locked, and every other error is one', async () => {
    expect((await parking(locked('55P03'))).answer).toEqual({ kind: 'held' })
    await expect(parking(locked('57P01'))).rejects.toThrow('no lock')
  })
})

test('several events share the wait, of which each has at least five milliseconds', async () => {
  const { asked, context } = scriptedDriver([event.id], locked('55P03'), [event.id])
  expect(await park(context, [event, event, event], 1_001)).toEqual([
    ...[{ kind: 'parked' }, { kind: 'held' }, { kind: 'parked' }],
  ])
  expect(asked.map(({ values }) => values?.[2])).toEqual(['333', '333', '333'])
  const short = scriptedDriver()
  await park(short.context, [event, event], 8)
  expect(short.asked[0]?.values?.[2]).toBe('5')
  expect(await park(short.context, [], 8)).toEqual([])
})

describe('a delivery', () => {
  const large = newEvent({ delivery: newDelivery({ body: Buffer.alloc(3 * MIB, 'x') }) })
  const known = row({ id: large.id, fingerprint: large.fingerprint.toString() })

  // Red when the caller is told that an event is stored of which only the row is.
  it.each<[string, readonly ScriptedAnswer[], string]>([
    ['it is new', [[]], 'too-large'],
    ['it failed before', [[known]], 'too-large'],
    ['it is done', [[{ ...known, state: 'd' }]], 'known'],
  ])('that is too large to store is not parked: %s', async (_, answers, kind) => {
    const { asked, context } = scriptedDriver(...answers)
    expect(await park(context, [large], 1_000)).toMatchObject([{ kind }])
    expect(asked.map(({ text }) => text)).toEqual([classify])
  })

  it('that is large is stored in pieces, and may be run when all are there', async () => {
    const { asked, context } = scriptedDriver([large.id])
    const bounded = { ...context, maxStoredBytes: 8 * MIB }
    expect(await park(bounded, [large], 1_000)).toEqual([{ kind: 'parked' }])
    const { writePart } = statements.bodies.event
    expect(asked.map(({ by, text }) => [by, text])).toEqual([
      ['short', insert],
      ['short', writePart],
      ['short', writePart],
      ['short', statements.parkWhole],
    ])
    expect(asked.at(-1)?.values).toEqual([large.id])
    const other = scriptedDriver([], [{ ...known, state: 'd' }])
    const kinds = await park({ ...other.context, maxStoredBytes: 8 * MIB }, [large], 1_000)
    expect(kinds).toMatchObject([{ kind: 'known' }])
    expect(other.asked.map(({ by }) => by)).toEqual(['short', 'query'])
  })
})
