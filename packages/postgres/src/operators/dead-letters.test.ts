import { ConfigurationError } from '@onceward/core'
import { describe, expect, it, test, vi } from 'vitest'
import { deadLetterRow, delivery, ID } from '../fixtures/dead-letter-row.ts'
import { scriptedPool } from '../fixtures/scripted-pool.ts'
import type { DeadLetterRow } from '../statements/dead-letters.ts'
import type { DeadLetterFilter } from './dead-letter-filter.ts'
import { deadLetters, type StoredDeadLetter } from './dead-letters.ts'

const PAGE = 50
const idOf = (index: number): string => `${ID.slice(0, -3)}${String(index).padStart(3, '0')}`

/** Dead letters of these numbers, as a page of the list tells them. */
const page = (from: number, to: number): unknown[] =>
  Array.from({ length: to - from }, (_, index) => {
    const id = idOf(from + index)
    return { at: `at ${id}`, deadLetter: deadLetterRow({ id }) }
  })

async function listed(answers: readonly unknown[][], filter?: DeadLetterFilter) {
  const pool = scriptedPool({ listDeadLetters: answers })
  const ids: string[] = []
  for await (const { id } of deadLetters(pool).list(filter)) ids.push(id)
  return { asked: pool.transactions.map(([first]) => first?.slice(1)), ids }
}

describe('the list', () => {
  // Red when it goes on as a list of no filter: dead letters of other consumers would be in it.
  it('asks each page with the whole filter', async () => {
    const [since, until] = [new Date(0), new Date(1_000)]
    const filter = { consumer: 'billing', reason: 'fatal', kind: 'event', since, until } as const
    const { asked } = await listed([page(0, PAGE), []], filter)
    const values = ['billing', 'fatal', 'event', since.toISOString(), until.toISOString()]
    expect(asked.map((each) => each?.slice(0, 5))).toEqual([values, values])
  })

  it.each<[Date, string]>([
    [new Date('0001-01-01T00:00:00Z'), '0001-01-01T00:00:00.000Z'],
    [new Date('0000-12-31T23:59:59Z'), '-infinity'],
    [new Date('9999-12-31T23:59:59Z'), '9999-12-31T23:59:59.000Z'],
    [new Date(8.64e15), 'infinity'],
  ])('asks PostgreSQL only for years that it can read: %s', async (since, value) => {
    expect((await listed([], { since })).asked[0]?.[3]).toBe(value)
  })
})

describe('a dead letter', () => {
  const letter = async (over: Partial<DeadLetterRow>): Promise<StoredDeadLetter | undefined> => {
    const body = Buffer.from([4, 5]).toString('base64')
    const pool = scriptedPool({
      readEvent: [[deadLetterRow(over)]],
      'bodies.event.readPart': [[body]],
    })
    return deadLetters(pool).show(ID)
  }

  it('is shown with its delivery and its state', async () => {
    expect(await letter({})).toEqual({
      ...{ ref: { kind: 'event', id: ID }, id: ID, consumer: 'billing', key: 'order-1' },
      ...{ reason: 'fatal', error: 'the account is closed', attempts: 3 },
      ...{ firstFailedAt: new Date(1_000), lastFailedAt: new Date(2_000) },
      ...{ delivery, published: false, requeued: false },
    })
  })

  it('has the tenant of its event, as it was', async () => {
    expect(await letter({ tenant: 'a\\u0000\\"b' })).toMatchObject({ tenant: 'a\0"b' })
  })

  it('says that it was published, or sent and not confirmed', async () => {
    expect(await letter({ published: true })).toMatchObject({ published: true, requeued: false })
    expect(await letter({ state: 'w' })).toMatchObject({ published: false, requeued: true })
  })

  it('has its large body', async () => {
    const found = await letter({ body: '', bodyBytes: 2, bodyParts: 1 })
    expect(found?.delivery.body).toEqual(new Uint8Array([4, 5]))
  })

  // Red before: a body of zeros was shown in place of the pieces that were deleted meanwhile.
  it('with a large body is not shown if it was dealt with while it was read', async () => {
    const row = deadLetterRow({ body: '', bodyBytes: 2, bodyParts: 1 })
    for (const after of [[], [deadLetterRow({ discarded: true })]]) {
      const listDeadLetters = [[{ at: 'now', deadLetter: row }, ...page(0, 1)]]
      const shown = deadLetters(scriptedPool({ readEvent: [[row], after] }))
      expect(await shown.show(ID)).toBeUndefined()
      const pool = scriptedPool({ listDeadLetters, readEvent: [after] })
      const ids: string[] = []
      for await (const { id } of deadLetters(pool).list()) ids.push(id)
      expect(ids).toEqual([idOf(0)])
    }
  })

  // Red before: an error without a name ended the list, and those behind it were never shown. Red too when zeros are
  // shown or sent in place of a piece that somebody has deleted.
  it.each([
    ['was stored by a newer version', { properties: Buffer.from('{').toString('base64') }],
    ['lacks a piece of its body', { body: '', bodyBytes: 2, bodyParts: 1 }],
  ])('that %s is named, behind all the others, and not sent', async (_, over) => {
    const row = deadLetterRow(over)
    const named = `The stored delivery of event ${ID} cannot be read.`
    const sender = {
      ...{ owns: () => true, ready: async () => undefined, send: vi.fn(async () => undefined) },
    }
    const pool = scriptedPool({
      listDeadLetters: [[{ at: 'now', deadLetter: row }, ...page(0, 1)]],
      ...{ readEvent: [[row]], freeEvent: [[ID]] },
    })
    const letters = deadLetters(pool)
    await expect(letters.show(ID)).rejects.toThrow(named)
    await expect(letters.requeue(ID, sender)).rejects.toThrow(named)
    expect(sender.send).not.toHaveBeenCalled()
    const ids: string[] = []
    const listing = async () => {
      for await (const { id } of letters.list()) ids.push(id)
    }
    await expect(listing()).rejects.toThrow(named)
    expect(ids).toEqual([idOf(0)])
  })

  it('is not shown if it is none any more', async () => {
    expect(await letter({ discarded: true })).toBeUndefined()
    expect(await deadLetters(scriptedPool({})).show(ID)).toBeUndefined()
  })
})

// Red when PostgreSQL refuses it: its error names a byte sequence, and neither the option nor what to do.
it.each([['a\0b'], [''], [42], [null]])('refuse %j for the name of the operator', (by) => {
  const make = () => deadLetters(scriptedPool({}), { by: by as string })
  expect(make).toThrow(ConfigurationError)
  expect(make).toThrow(/`by` of deadLetters to be the name of an operator.*Leave it out/)
})

test('a requeue checks its target before it connects', async () => {
  const pool = scriptedPool({})
  const requeuing = deadLetters(pool).requeue({}, undefined as never)
  await expect(requeuing).rejects.toThrow(/^deadLetters\.requeue expected a filter that says/)
  await expect(requeuing).rejects.toBeInstanceOf(ConfigurationError)
  expect(pool.transactions).toEqual([])
})

test('what is no pool is refused at once', () => {
  expect(() => deadLetters({} as never)).toThrow(ConfigurationError)
})
