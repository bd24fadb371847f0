import { describe, expect, test } from 'vitest'
import { commanded } from '../fixtures/commanded.ts'
import { type Answers, CURRENT } from '../fixtures/scripted-database.ts'
import { replayCommand } from './dead-letters-change.ts'

const ID = '0c5d9f52-6f3c-9b3a-2f86-8f5b7a5e6f10'
const OTHER = '1c5d9f52-6f3c-9b3a-2f86-8f5b7a5e6f10'
const letter = (id: string, consumer = 'billing', reason = 'fatal') => ({ id, consumer, reason })
const matching = (...letters: readonly unknown[]): Answers => [
  ['order by at, id', letters],
  ['onceward.operator', ['alice']],
  ['with free', [ID, OTHER]],
  ...CURRENT,
]
const TWO = matching(letter(ID), letter(OTHER))
const usageSaying = (text: string) =>
  expect.objectContaining({ exitCode: 2, message: expect.stringContaining(text) })

/** What the statements that change were told: ids, the operator and the reason. */
const changes = ({ asked }: Awaited<ReturnType<typeof commanded>>) =>
  asked.filter(({ sql }) => sql.includes('with free')).map(({ values }) => values)

describe('by a filter', () => {
  test('with --yes exactly what it selects is changed', async () => {
    const ran = await commanded(replayCommand, ['--consumer', 'billing', '--yes'], TWO)
    expect(ran).toMatchObject({ code: 0, stdout: '2 dead letters will run again.\n', stderr: '' })
    expect(changes(ran)).toEqual([[`{${ID},${OTHER}}`, null]])
    expect(ran.asked.find(({ sql }) => sql.includes('order by at, id'))?.values).toEqual([
      ...['billing', null, null, null, null, null, null, null],
    ])
  })

  test('that selects nothing changes nothing, and that is right', async () => {
    const ran = await commanded(replayCommand, ['--all'], matching())
    expect(ran).toMatchObject({ code: 0, stdout: 'There are no dead letters that match.\n' })
    const json = await commanded(replayCommand, ['--all', '--json'], matching())
    expect(JSON.parse(json.stdout)).toEqual({ done: [], untouched: [] })
  })

  test('without a terminal is refused without --yes', async () => {
    const ran = await commanded(replayCommand, ['--all'], TWO)
    expect(ran.failure).toEqual(
      usageSaying('2 dead letters would be changed. Without a terminal, give --yes'),
    )
    expect(changes(ran)).toEqual([])
  })

  test.each(['y', 'Y', 'yes', ' YES '])('is confirmed by %j', async (types) => {
    const ran = await commanded(replayCommand, ['--all'], TWO, { types })
    expect(ran).toMatchObject({ code: 0 })
    expect(changes(ran)).toHaveLength(1)
  })

  test.each(['n', '', 'yy', 'yesterday', 'ay', undefined])(
    'is not confirmed by %j',
    async (types) => {
      const ran = await commanded(replayCommand, ['--all'], TWO, { types })
      expect(ran).toMatchObject({ code: 1, stdout: '' })
      expect(ran.stderr).toMatch(/Nothing was changed\.\n$/)
      expect(changes(ran)).toEqual([])
    },
  )

  test('the question counts what is changed, by consumer and reason', async () => {
    const three = matching(letter(ID), letter('b', 'mail', 'no-verdict'), letter(OTHER))
    const { stderr } = await commanded(replayCommand, ['--all'], three, { types: 'n' })
    expect(stderr).toBe(
      '  billing  fatal  2\n  mail  no-verdict  1\nReally replay 3 dead letters? [y/N] Nothing was changed.\n',
    )
  })
})

test.each<readonly [readonly string[], string]>([
  [[], 'Which dead letters?'],
  [['--limit', '5'], 'Which dead letters?'],
  [[ID, '--all'], 'ids or a filter, not both'],
  [[ID, '--consumer', 'billing'], 'ids or a filter, not both'],
  [[ID, '--limit', '5'], 'ids or a filter, not both'],
  [[ID, 'x'], 'Expected ids of dead letters'],
  [['--all', '--consumer', 'billing'], '--all or a filter, not both'],
  [[ID, '--by', ' '], 'Expected --by not to be empty'],
])('%j is refused', async (args, message) => {
  const ran = await commanded(replayCommand, [...args, '--yes'], TWO)
  expect(ran.failure).toEqual(usageSaying(message))
  expect(changes(ran)).toEqual([])
})
