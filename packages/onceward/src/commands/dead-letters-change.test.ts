import { describe, expect, onTestFinished, test, vi } from 'vitest'
import { commanded } from '../fixtures/commanded.ts'
import { type Answers, CURRENT, scriptedDatabase } from '../fixtures/scripted-database.ts'
import { toJson } from '../render/visible.ts'
import { type Change, change, discardCommand, replayCommand } from './dead-letters-change.ts'

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

describe('by ids', () => {
  test('each is changed once, in any case, and nobody is asked', async () => {
    const ran = await commanded(replayCommand, [ID, OTHER, ID.toUpperCase()], TWO)
    expect(ran).toMatchObject({ code: 0, stdout: '2 dead letters will run again.\n', stderr: '' })
    expect(changes(ran)).toEqual([[`{${ID},${OTHER}}`, null]])
  })

  test('a discard is told why and by whom', async () => {
    const ran = await commanded(
      discardCommand,
      [ID, '--why', 'test data', '--by', 'bob'],
      [['with free', [ID]], ...CURRENT],
    )
    expect(ran).toMatchObject({ code: 0, stdout: '1 dead letter discarded.\n' })
    expect(changes(ran)).toEqual([[`{${ID}}`, 'bob', 'test data']])
  })

  test('one that is no dead letter is named, and the command says no', async () => {
    const ran = await commanded(replayCommand, [ID], CURRENT)
    expect(ran.code).toBe(1)
    expect(ran.stdout).toContain(`${ID} was left as it is: no such dead letter`)
  })

  test('nothing is changed in tables that this release cannot use', async () => {
    const ran = await commanded(replayCommand, [ID], [['with free', [ID]]])
    expect(ran.failure).toMatchObject({ message: expect.stringContaining('no tables') })
    expect(changes(ran)).toEqual([])
  })
})

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

  test('where nobody can be asked is refused without --yes', async () => {
    const ran = await commanded(replayCommand, ['--all'], TWO)
    expect(ran.failure).toEqual(usageSaying('2 dead letters would be changed. Give --yes'))
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

test('a discard must say why, before anything is read', async () => {
  const { asked, failure } = await commanded(discardCommand, [ID, '--why', ''], TWO)
  expect(failure).toEqual(usageSaying('Expected --why not to be empty'))
  expect(asked).toEqual([])
  const none = await commanded(discardCommand, [ID], TWO)
  expect(none.failure).toMatchObject({ code: 'commander.missingMandatoryOptionValue' })
})

test('all that a filter selects may be limited', async () => {
  const { code } = await commanded(replayCommand, ['--all', '--limit', '1', '--yes'], TWO)
  expect(code).toBe(0)
})

describe('what was changed', () => {
  const acting = async (act: ReturnType<Change['begin']>, ids = [ID], clock = [0]) => {
    const [said, progress]: [string[], string[]] = [[], []]
    let at = 0
    const now = vi.spyOn(performance, 'now').mockImplementation(() => clock[at++] ?? 0)
    onTestFinished(() => now.mockRestore())
    const output = {
      ...{ isJson: false, showsProgress: true, style: (_: unknown, text: string) => text },
      answer: (value: unknown, text: () => string) => said.push(toJson(value), text()),
      note: (text: string) => said.push(text),
      progress: (text: string) => progress.push(text),
    }
    const made = { verb: 'replay', did: 'done', size: 1, begin: () => act } as const
    const work = { database: scriptedDatabase(), output, options: { schema: 'onceward' } }
    const ended = await change(work as never, made, ids).catch((error: unknown) => error)
    return { said, progress, ended }
  }

  test('and what was left as it was is said, with the error as a terminal may show it', async () => {
    const untouched = [
      { id: ID, why: 'not-sent', error: 'no\u001b queue' },
      { id: OTHER, why: 'held' },
    ] as const
    const { ended, said } = await acting(async () => ({ done: ['a'], untouched }))
    expect(said[1]).toBe(
      [
        '1 dead letter done.',
        `${ID} was left as it is: nothing was sent (no\\u{1b} queue).`,
        `${OTHER} was left as it is: another process publishes, sends or changes it: try again in 30 s.`,
      ].join('\n'),
    )
    expect(ended).toBe(1)
  })

  test('is told before the failure that ended it', async () => {
    let calls = 0
    const { ended, said } = await acting(
      async (done) => {
        calls += 1
        if (calls === 2) throw new Error('connection lost')
        return { done, untouched: [] }
      },
      [ID, OTHER],
    )
    expect(said).toEqual([`{"done":["${ID}"],"untouched":[]}`, '1 dead letter done.'])
    expect(ended).toMatchObject({ exitCode: 3, message: 'connection lost' })
  })

  const ids = ['1', '2', '3', '4'].map((digit) => ID.replace(/^0/, digit))
  const act = async (done: readonly string[]) => ({ done, untouched: [] })

  test('is shown while it goes on, at most each 100 ms', async () => {
    const { ended, progress } = await acting(act, ids, [100, 101, 201, 202])
    expect(progress).toEqual([
      '[###############---------------] 2 of 4',
      // The third is 100 ms later, which is not more.
      '[##############################] 4 of 4',
      '',
    ])
    expect(ended).toBe(0)
  })

  test('is shown as a bar that is full only at the end', async () => {
    const { progress } = await acting(act, ids.slice(1), [1_000, 2_000, 3_000])
    expect(progress).toEqual([
      '[##########--------------------] 1 of 3',
      '[####################----------] 2 of 3',
      '[##############################] 3 of 3',
      '',
    ])
    const odd = await acting(
      act,
      [...ids, ...['8', '9', 'a'].map((digit) => ID.replace(/^0/, digit))],
      [1_000],
    )
    expect(odd.progress[0]).toBe('[####--------------------------] 1 of 7')
  })
})
