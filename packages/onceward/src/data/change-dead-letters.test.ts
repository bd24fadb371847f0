import type { OperatorReport } from '@onceward/postgres'
import { describe, expect, test } from 'vitest'
import { changeEach } from './change-dead-letters.ts'

type Untouched = OperatorReport['untouched'][number]

/** Changes all but those that `left` names; `lost` ends the connection. */
function changing(left: readonly Untouched[] = [], lost = '') {
  const groups: (readonly string[])[] = []
  const counts: number[] = []
  const changed = (ids: readonly string[], size: number, most = Number.POSITIVE_INFINITY) =>
    changeEach(ids, {
      size,
      act: async (group) => {
        groups.push(group)
        if (group.includes(lost)) throw new Error('connection lost')
        const untouched = left.filter(({ id }) => group.includes(id))
        const done = group.filter((id) => !untouched.some((each) => each.id === id))
        return { done, untouched }
      },
      goesOn: (count) => {
        counts.push(count)
        return count < most
      },
    })
  return { changed, groups, counts }
}
const IDS = ['a', 'b', 'c', 'd', 'e']

describe('dead letters', () => {
  test('are changed group by group, and what is done is counted', async () => {
    const { changed, counts, groups } = changing([{ id: 'd', why: 'held' }])
    expect(await changed(IDS, 2)).toEqual({
      changed: { done: ['a', 'b', 'c', 'e'], untouched: [{ id: 'd', why: 'held' }] },
    })
    expect(groups).toEqual([['a', 'b'], ['c', 'd'], ['e']])
    expect(counts).toEqual([2, 4, 5])
  })

  test('of none are no work', async () => {
    const { changed, groups } = changing()
    expect(await changed([], 2)).toEqual({ changed: { done: [], untouched: [] } })
    expect(groups).toEqual([])
  })

  test('are left alone once the work may not go on', async () => {
    expect(await changing().changed(IDS, 2, 2)).toEqual({
      changed: { done: ['a', 'b'], untouched: [] },
    })
  })

  test('that were changed before a failure stay so', async () => {
    const { changed, groups } = changing([], 'c')
    expect(await changed(IDS, 2)).toEqual({
      ...{ changed: { done: ['a', 'b'], untouched: [] }, failure: new Error('connection lost') },
    })
    expect(groups).toHaveLength(2)
  })

  test('are left alone once a broker has not confirmed one', async () => {
    const silent = { id: 'b', why: 'unconfirmed', error: 'no answer' } as const
    const { changed, counts } = changing([silent])
    const ended = await changed(IDS, 2)
    expect(ended.changed).toEqual({ done: ['a'], untouched: [silent] })
    expect(ended.failure).toMatchObject({
      ...{
        exitCode: 3,
        message: expect.stringContaining('did not confirm the message (no answer)'),
      },
    })
    expect(counts).toEqual([])
  })

  test.each<Untouched>([
    // It was requeued before, so no broker was asked now.
    { id: 'b', why: 'unconfirmed' },
    { id: 'b', why: 'not-sent', error: 'no queue' },
  ])('are changed on after %j', async (left) => {
    expect((await changing([left]).changed(IDS, 2)).changed.done).toHaveLength(4)
  })
})
