import type { Burial, OwnerToken } from '@onceward/core'
import { newDelivery, newEvent } from '@onceward/testing/conformance'
import { describe, expect, it, test } from 'vitest'
import { eventParameter } from '../driver/rows.ts'
import { scriptedDriver, statements } from '../fixtures/scripted-driver.ts'
import { storeDelivery } from '../statements/delivery-columns.ts'
import { bury, fail, release } from './verdicts.ts'

const MIB = 1024 * 1024
const token = 'mine' as OwnerToken
const [first, second] = [newEvent(), newEvent()] as const
const error = Object.assign(new Error('why'), { stack: 'Error: why' })
const locked = (code = '55P03'): Error => Object.assign(new Error('no lock'), { code })
const parameter = (values: readonly unknown[] | undefined): unknown =>
  JSON.parse(String(values?.[0]))

const failures = [first, second].map((event) => ({
  ...{ event, token, attempt: 2, error, delayMs: 9 },
}))
const burials: readonly Burial[] = [first, second].map((event) => ({
  ...{ event, token, attempt: 2, error, reason: 'fatal' },
}))

const sized = (bytes: number): Burial => ({
  event: newEvent({ delivery: newDelivery({ body: Buffer.alloc(bytes, 'x') }) }),
  ...{ attempt: 1, error: 'no', reason: 'fatal' },
})

describe('a verdict', () => {
  test('that failed is recorded for the rows that were still its own', async () => {
    const { asked, context } = scriptedDriver([second.id])
    expect(await fail(context, failures)).toEqual(['lost', 'recorded'])
    expect(asked).toMatchObject([{ by: 'query', text: statements.fail }])
    expect(asked[0]?.values?.[1]).toBe('5')
    expect(parameter(asked[0]?.values)).toEqual(
      [first, second].map((event) => ({
        ...eventParameter(event),
        ...{ token, attempt: 2, delayMs: 9, error: 'Error: why' },
      })),
    )
  })

  // Red when it is not on disk: its delivery is acked.
  test('that buries is durable, and holds the delivery', async () => {
    const { asked, context } = scriptedDriver([first.id])
    expect(await bury(context, burials)).toEqual(['recorded', 'lost'])
    expect(asked).toMatchObject([{ by: 'durable', text: statements.bury }])
    expect(asked[0]?.values?.[1]).toBe('5')
    expect(parameter(asked[0]?.values)).toEqual(
      [first, second].map((event) => ({
        ...{ ...eventParameter(event), ...storeDelivery(event.delivery, 1_000) },
        ...{ token, attempt: 2, reason: 'fatal', error: 'Error: why' },
      })),
    )
  })

  test('that releases says whether the run had an end', async () => {
    const { asked, context } = scriptedDriver([first.id, second.id])
    const releases = [
      { event: first, token, as: 'given-back' },
      { event: second, token, as: 'no-verdict' },
    ] as const
    expect(await release(context, releases)).toEqual(['recorded', 'recorded'])
    expect(asked).toMatchObject([{ by: 'query', text: statements.release }])
    expect(parameter(asked[0]?.values)).toEqual([
      { id: first.id, token, noVerdict: 0 },
      { id: second.id, token, noVerdict: 1 },
    ])
  })

  it('asks nothing when there is none', async () => {
    const { asked, context } = scriptedDriver()
    expect([await fail(context, []), await bury(context, [])]).toEqual([[], []])
    expect(await release(context, [])).toEqual([])
    expect(asked).toEqual([])
  })

  // Red when one row that another owner holds takes the verdicts of its neighbours with it.
  it('is lost where another owner holds the row, and recorded for the others', async () => {
    const { asked, context } = scriptedDriver(locked(), locked(), [second.id])
    expect(await fail(context, failures)).toEqual(['lost', 'recorded'])
    const rows = asked.map(({ values }) => (parameter(values) as readonly object[]).length)
    expect(rows).toEqual([2, 1, 1])
  })

  it('fails for every other error', async () => {
    await expect(fail(scriptedDriver(locked('57P01')).context, failures)).rejects.toThrow('no lock')
    const later = scriptedDriver(locked(), locked('57P01')).context
    await expect(fail(later, failures)).rejects.toThrow('no lock')
  })
})

describe('burials', () => {
  it('are cut into statements of at most eight MiB', async () => {
    const { asked, context } = scriptedDriver()
    const sizes = [2 * MIB, 2 * MIB, 2 * MIB, 2 * MIB, 1, 8, 2 * MIB, 2 * MIB, 2 * MIB, 2 * MIB]
    const given = sizes.map(sized)
    expect(await bury({ ...context, maxStoredBytes: 8 * MIB }, given)).toHaveLength(10)
    const rows = asked.map(({ values }) => (parameter(values) as readonly object[]).length)
    expect(rows).toEqual([4, 5, 1])
  })

  test('a body that is stored in pieces has a transaction of its own, and none if its row is not its own', async () => {
    const { asked, context } = scriptedDriver([first.id], ['another'])
    const large = sized(2 * MIB + 1)
    const given = [burials[0] as Burial, large, burials[1] as Burial]
    expect(await bury({ ...context, maxStoredBytes: 8 * MIB }, given)).toEqual([
      ...['recorded', 'lost', 'lost'],
    ])
    expect(asked.map(({ by, text }) => [by, text])).toEqual([
      ['durable', statements.bury],
      ['short', statements.bury],
      ['durable', statements.bury],
    ])
    const mine = scriptedDriver([large.event.id])
    expect(await bury({ ...mine.context, maxStoredBytes: 8 * MIB }, [large])).toEqual(['recorded'])
    expect(mine.asked.map(({ by, text }) => [by, text])).toEqual([
      ['short', statements.bury],
      ...[0, 1].map(() => ['short', statements.bodies.event.writePart]),
    ])
    // Too large to store: the row alone.
    const tooLarge = scriptedDriver([large.event.id])
    await bury(tooLarge.context, [large])
    expect(tooLarge.asked.map(({ by }) => by)).toEqual(['durable'])
  })
})
