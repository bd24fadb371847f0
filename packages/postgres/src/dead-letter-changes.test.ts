import { describe, expect, it, test } from 'vitest'
import { createChanges, deadLetterChanges, GROUP_SIZE } from './dead-letter-changes.ts'
import { deadLetterRow, ID } from './fixtures/dead-letter-row.ts'
import { scriptedPool } from './fixtures/scripted-pool.ts'
import { createStatements } from './statements/index.ts'

const coded = (code: string): Error => Object.assign(new Error(code), { code })
const idOf = (index: number): string => `${ID.slice(0, -3)}${String(index).padStart(3, '0')}`

function changesOf(answers: Parameters<typeof scriptedPool>[0]) {
  const pool = scriptedPool(answers)
  const changes = createChanges({ pool, statements: createStatements(), by: 'alice' })
  const names = () => pool.transactions.map((asked) => asked.map(([name]) => name))
  return { changes, names, transactions: pool.transactions }
}

test.each([
  ['replay', ['replayEvents', 'replayRefused'], []],
  ['discard', ['discardEvents', 'discardRefused'], ['a test']],
] as const)('%s changes events and refused messages in one transaction', async (verb, of, why) => {
  const [events, refused] = of
  const { changes, transactions } = changesOf({ [events]: [[idOf(1)]], [refused]: [[idOf(2)]] })
  const ids = [idOf(1), idOf(2).toUpperCase()]
  expect(await changes[verb](ids, 'a test')).toEqual({ done: ids, untouched: [] })
  const values = [`{${ids.join(',')}}`, 'alice', ...why]
  expect(transactions).toEqual([
    [['boundOperator'], [events, ...values], [refused, ...values], ['commit']],
  ])
})

test('refused messages are not asked for if all are events', async () => {
  const { changes, names } = changesOf({ replayEvents: [[ID]] })
  expect(await changes.replay([ID])).toEqual({ done: [ID], untouched: [] })
  expect(names()).toEqual([['boundOperator', 'replayEvents', 'commit']])
})

test('the reason of a discard is stored without what a column of text refuses', async () => {
  const { changes, transactions } = changesOf({ discardEvents: [[ID]] })
  await changes.discard([ID], 'a\0test')
  expect(transactions[0]?.[1]).toEqual(['discardEvents', `{${ID}}`, 'alice', 'a\u2400test'])
})

test('the command line changes dead letters in the name that it gives, or of its session', async () => {
  for (const by of ['bob', undefined]) {
    const pool = scriptedPool({ replayEvents: [[ID]] })
    await deadLetterChanges(pool, { by }).replay([ID])
    expect(pool.transactions[0]?.[1]).toEqual(['replayEvents', `{${ID}}`, by ?? null])
  }
})

// Red when all are one transaction: it would hold the rows of every dead letter until its end.
test('many are changed in groups', async () => {
  const ids = Array.from({ length: GROUP_SIZE + 1 }, (_, index) => idOf(index))
  const { changes, transactions } = changesOf({
    replayEvents: [ids.slice(0, GROUP_SIZE), ids.slice(GROUP_SIZE)],
  })
  expect(await changes.replay(ids)).toEqual({ done: ids, untouched: [] })
  const given = transactions.map((asked) => String(asked[1]?.[1]).split(',').length)
  expect(given).toEqual([GROUP_SIZE, 1])
})

describe('what a group leaves out', () => {
  const row = deadLetterRow()

  it('is decided one by one, under the lock of its row', async () => {
    const { changes, names } = changesOf({ replayEvents: [[], [ID]], readEvent: [[row]] })
    expect(await changes.replay([ID])).toEqual({ done: [ID], untouched: [] })
    const locks = ['boundOperator', 'lockEventRow', 'lockRefusedRow', 'readEvent']
    expect(names()).toEqual([
      ['boundOperator', 'replayEvents', 'replayRefused', 'commit'],
      [...locks, 'replayEvents', 'commit'],
    ])
  })

  it('is told with its reason, beside those that are done', async () => {
    const done = idOf(1)
    const { changes } = changesOf({ replayEvents: [[done]], classify: [[{ state: 'd' }]] })
    expect(await changes.replay([ID, done, 'no id'])).toEqual({
      done: [done],
      untouched: [
        { id: ID, why: 'done' },
        { id: 'no id', why: 'unknown' },
      ],
    })
  })

  it('is held if another change came first after all', async () => {
    const { changes } = changesOf({ readEvent: [[row]] })
    expect(await changes.replay([ID])).toEqual({ done: [], untouched: [{ id: ID, why: 'held' }] })
  })

  it('is all of it where a whole table is locked', async () => {
    const { changes } = changesOf({ replayEvents: [coded('55P03'), [ID]], readEvent: [[row]] })
    expect(await changes.replay([ID])).toEqual({ done: [ID], untouched: [] })
  })

  it('is nothing after another error, which comes out', async () => {
    const defect = coded('23514')
    const { changes } = changesOf({ replayEvents: [defect, [ID]], readEvent: [[row]] })
    await expect(changes.replay([ID])).rejects.toBe(defect)
  })
})

test('nothing is asked for what holds no id', async () => {
  const { changes, transactions } = changesOf({})
  const untouched = [{ id: 'no id', why: 'unknown' }]
  expect(await changes.replay(['no id'])).toEqual({ done: [], untouched })
  expect(await changes.replay([])).toEqual({ done: [], untouched: [] })
  expect(transactions).toEqual([])
})
