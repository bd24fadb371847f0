import { newDelivery, newEvent } from '@onceward/testing/conformance'
import { describe, expect, it } from 'vitest'
import { type ScriptedAnswer, scriptedDriver, statements } from '../fixtures/scripted-driver.ts'
import type { KnownRow } from '../statements/attempts.ts'
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
const { classify, park: insert } = statements

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
