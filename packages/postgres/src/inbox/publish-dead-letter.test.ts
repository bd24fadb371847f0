import type { DeadLetterRef } from '@onceward/core/ports'
import { newDelivery, newEvent } from '@onceward/testing/conformance'
import { describe, expect, it } from 'vitest'
import { scriptedDriver, statements } from '../fixtures/scripted-driver.ts'
import type { DeadLetterRow } from '../statements/dead-letters.ts'
import { storeDelivery } from '../statements/delivery-columns.ts'
import { due, takePublishing } from './publish-dead-letter.ts'

const delivery = newDelivery({ body: new Uint8Array([1, 2, 3]) })
const { id } = newEvent()
const event: DeadLetterRef = { kind: 'event', id }

const row = (over: Partial<DeadLetterRow> = {}): DeadLetterRow => ({
  ...{ kind: 'event', id, consumer: 'billing', key: 'o-1', tenant: null },
  ...{ reason: 'fatal', error: 'the account is closed', attempts: 3 },
  ...{ firstFailedAtMs: 1_000, lastFailedAtMs: 2_000 },
  ...{ published: false, publishing: false, parked: false },
  ...storeDelivery(delivery, 1_000),
  ...{ state: 'x', fingerprint: '7', replay: false, discarded: false },
  ...over,
})

/** No JSON, as a newer version may store it. */
const UNREADABLE = Buffer.from([2, 255]).toString('base64')

describe('what the poller is given', () => {
  // Red when a poller holds many large bodies at the same time: the process runs out of memory.
  it('is as much as one delivery may have, and a large one alone', async () => {
    const sizes = [600, 401, 400, 1]
    const events = sizes.map((bodyBytes) => row({ bodyBytes, key: String(bodyBytes) }))
    const { asked, context } = scriptedDriver([...events], [row({ kind: 'refused', bodyBytes: 0 })])
    const keys = (await due(context, 10)).map(({ identity: its }) => its?.key)
    expect(keys).toEqual(['600', '400', undefined])
    // The second is left for the next poll, and what fits behind it is not.
    expect(asked[1]?.values).toEqual(['5', '8'])
    const large = scriptedDriver([row({ bodyBytes: 5_000 })], [])
    expect(await due(large.context, 10)).toHaveLength(1)
  })
  // Red when each page may begin with a large one: ten of them were in memory together.
  it('is as much as one delivery may have also behind rows that cannot be read', async () => {
    const bodyBytes = 600
    const first = [row({ properties: UNREADABLE, bodyBytes: 0 }), row({ bodyBytes })]
    const { asked, context } = scriptedDriver(first, [row({ bodyBytes })], [])
    expect(await due(context, 2)).toHaveLength(1)
    expect(asked[1]?.values).toEqual(['5', '1', `{${id},${id}}`])
  })

  // Red before: another process had run it, or an operator had dealt with it, and zeros were run in place of its pieces.
  it.each(['event', 'refused'] as const)(
    'is no %s with a large body that is gone when its pieces are read',
    async (kind) => {
      const large = row({ kind, state: 'w', replay: true, body: '', bodyBytes: 2, bodyParts: 1 })
      const pages = kind === 'event' ? [[large]] : [[], [large]]
      const { context } = scriptedDriver(...pages, [], [])
      expect(await due(context, 1)).toEqual([])
      const there = scriptedDriver(...pages, ['BAU='])
      const [found] = await due(there.context, 1)
      expect(found?.delivery.body).toEqual(new Uint8Array([4, 5]))
      const damaged = scriptedDriver(...pages, [], [large])
      await expect(due(damaged.context, 1)).rejects.toThrow('cannot be read')
    },
  )

  // Red before: zeros were published in its place.
  it('is not published without a piece of its body', async () => {
    const large = row({ body: '', bodyBytes: 2, bodyParts: 1 })
    const { context } = scriptedDriver([id], [large], [])
    await expect(takePublishing(context, event, 15_000)).rejects.toMatchObject({
      ...{ name: 'UnreadableError', cause: { message: 'piece 0 is missing' } },
    })
  })
})

describe('stored deliveries that cannot be read', () => {
  const bad = (number: number): DeadLetterRow =>
    row({ id: `bad-${number}`, properties: UNREADABLE })

  it('are passed over, and the search goes on behind them', async () => {
    const { asked, context } = scriptedDriver([bad(1), bad(2)], [row(), bad(3)], [], [])
    expect(await due(context, 2)).toHaveLength(1)
    expect(asked).toEqual([
      { by: 'query', text: statements.dueEvents, values: ['5', '2', '{}'] },
      { by: 'query', text: statements.dueEvents, values: ['5', '2', '{bad-1,bad-2}'] },
      { by: 'query', text: statements.dueEvents, values: ['5', '1', `{bad-1,bad-2,${id},bad-3}`] },
      { by: 'query', text: statements.dueRefused, values: ['5', '1'] },
    ])
  })

  it('end the search when no more rows are due', async () => {
    const { asked, context } = scriptedDriver([row(), bad(1)], [])
    expect(await due(context, 3)).toHaveLength(1)
    expect(asked.map(({ text }) => text)).toEqual([statements.dueEvents, statements.dueRefused])
  })

  // Red when a table full of them keeps one search busy for ever.
  it('end the search when there are a thousand', async () => {
    const many = Array.from({ length: 500 }, (_, number) => bad(number))
    const { asked, context } = scriptedDriver(many, many, [row({ kind: 'refused' })])
    expect(await due(context, 500)).toHaveLength(1)
    expect(asked.map(({ text }) => text)).toEqual([
      ...[statements.dueEvents, statements.dueEvents, statements.dueRefused],
    ])
  })

  it.each([
    ['an event', [[bad(1)], []], 'event bad-1'],
    ['a refused message', [[], [{ ...bad(1), kind: 'refused' }]], 'refused message bad-1'],
  ] as const)('are an error when nothing else is due: %s', async (_, pages, name) => {
    const { context } = scriptedDriver(...pages)
    const error = await due(context, 3).catch((thrown: unknown) => thrown)
    expect(error).toMatchObject({ cause: expect.any(SyntaxError) })
    expect(error).toHaveProperty('message', expect.stringContaining(`of ${name} cannot be read.`))
  })

  // Red when an outage looks like a delivery of a newer version: the poller would not say that the database is away.
  it('are not those that the database does not give', async () => {
    const lost = new Error('Connection terminated')
    const { context } = scriptedDriver([row(), row({ bodyParts: 2 })], lost)
    await expect(due(context, 3)).rejects.toBe(lost)
  })
})
