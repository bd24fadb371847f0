import { describe, expect, it } from 'vitest'
import { errorWith, openOnOther } from '../fixtures/kysely.ts'

describe('a client that takes only one statement in a text', () => {
  const single = (text: string) => (text.includes(';') ? errorWith('42601') : undefined)

  it('gets each statement alone, and no second text of several', async () => {
    const { held, sent, client } = await openOnOther(single)
    for (const _ of ['first', 'again']) await held.send(['one', 'two', 'three'], 1_000)
    expect(sent).toEqual(['one; two', ...Array(2).fill(['one', 'two', 'three']).flat()])
    expect(client.takesSeveral).toBe(false)
  })

  it('has no rows for no statements', async () => {
    const { held, sent, client } = await openOnOther(single)
    client.takesSeveral = false
    expect(await held.send([], 1_000)).toEqual({ rows: [], rowCount: 0, command: undefined })
    expect(sent).toEqual([])
  })

  it('is not known by a text of one statement', async () => {
    const { held, client } = await openOnOther()
    await held.send(['one'], 1_000)
    expect(client.takesSeveral).toBeUndefined()
    await held.send(['one', 'two'], 1_000)
    // Its first text had only one statement too.
    expect(client.takesSeveral).toBeUndefined()
    await held.send(['one', 'two', 'three'], 1_000)
    expect(client.takesSeveral).toBe(true)
  })

  // Red when they are sent once more: what ran before would run twice.
  it('is not taken for one by the error of a later text, nor by another error', async () => {
    for (const bad of ['three', 'one; two']) {
      const code = bad === 'three' ? '42601' : '23505'
      const { held, sent } = await openOnOther((text) =>
        text === bad ? errorWith(code) : undefined,
      )
      await expect(held.send(['one', 'two', 'three'], 1_000)).rejects.toThrow(code)
      expect(sent).toEqual(['one; two', 'three'].slice(0, bad === 'three' ? 2 : 1))
    }
    const { held, client } = await openOnOther(single)
    client.takesSeveral = true
    await expect(held.send(['one', 'two', 'three'], 1_000)).rejects.toThrow('42601')
  })
})
