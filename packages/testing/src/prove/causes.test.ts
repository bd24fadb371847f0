import { expect, test } from 'vitest'
import { causesOf } from './causes.ts'
import { type Struck, tellStories } from './stories.ts'

const EVENTS = 20

interface Told {
  /** The effects of the events that have not one. */
  readonly effects: Readonly<Record<number, number>>
  readonly struck?: readonly Struck[]
  readonly sentTwice?: readonly number[]
}

function causes({ effects, sentTwice = [], struck = [] }: Told): readonly string[] {
  const counted = Array.from({ length: EVENTS }, (_, index) => effects[index + 1] ?? 1)
  return causesOf(tellStories({ sentTwice: new Set(sentTwice) }, struck, counted))
}

const beforeCommit: Struck = { point: 'before-commit', hit: [1], beside: [2] }
const answered: Struck = { point: 'commit-answered', hit: [1], beside: [] }

test.each([
  ['nothing', { effects: {} }, []],
  ['a lost event that nothing has happened to', { effects: { 5: 0 } }, [/forgotten `await`/]],
  ['a lost event around a kill', { effects: { 1: 0 }, struck: [answered] }, [/around a kill/]],
  ['doubled copies', { effects: { 3: 2, 4: 2 }, sentTwice: [3, 4, 5] }, [/that of the delivery/]],
  [
    'an event that a kill before the COMMIT has doubled',
    { effects: { 1: 2 }, struck: [beforeCommit] },
    [/outside of the transaction/],
  ],
  [
    'an event that a kill after the COMMIT has doubled',
    { effects: { 1: 2 }, struck: [answered] },
    [/after their COMMIT/],
  ],
  [
    'doubled events of which one was sent twice',
    { effects: { 1: 2, 2: 3 }, struck: [beforeCommit], sentTwice: [2, 9, 10] },
    [/outside of the transaction/],
  ],
] as const)('the cause is told of %s', (_title, told, expected) => {
  const found = causes(told)
  expect(found).toHaveLength(expected.length)
  for (const [index, text] of expected.entries()) expect(found[index]).toMatch(text)
})

test('a row says how many events of its point are lost and doubled', () => {
  const effects = Array.from({ length: EVENTS }, (_, index) => (index === 0 ? 3 : 1))
  const { rows, wrong } = tellStories({ sentTwice: new Set([2]) }, [beforeCommit], effects)
  expect(rows).toEqual([
    { point: 'untouched', title: 'sent once, no kill', events: 18, lost: 0, doubled: 0 },
    { point: 'sent-twice', title: 'sent twice', events: 1, lost: 0, doubled: 0 },
    {
      ...{ point: 'before-commit', title: 'killed before COMMIT', blows: 1 },
      ...{ events: 1, lost: 0, doubled: 1 },
    },
    { point: 'beside', title: 'in hand beside a killed one', events: 1, lost: 0, doubled: 0 },
  ])
  expect(wrong).toMatchObject([{ event: 1, effects: 3, happened: ['killed before COMMIT'] }])
})
