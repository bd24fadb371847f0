import { CASE_NAMES, ORM_TABLE } from '../packages/postgres/src/fixtures/orms/table.ts'
import { HABITS, type Habit, ORM_NAMES } from '../test-e2e/orms/habits-table.ts'
import { table } from './docs-table.ts'

/** How many cases `packages/postgres/src/orms.int.test.ts` plays with each ORM, and those in which one differs. */
export function ormCases(): string {
  const differing = CASE_NAMES.flatMap((name) =>
    Object.entries(ORM_TABLE).flatMap(([orm, { differs }]) => {
      const how = differs?.[name]
      return how === undefined ? [] : [`- ${name}; ${orm}: ${how}`]
    }),
  )
  const count = CASE_NAMES.length
  if (differing.length === 0) return `All ${count} cases end alike with each of them.`
  return [
    `The ${count} cases end alike with each of them, except for these:`,
    '',
    ...differing,
  ].join('\n')
}

const SHOWN: Readonly<Record<Habit, string>> = {
  inside: '✓',
  outside: 'outside',
  warned: 'outside, with a warning',
  refused: 'refused',
}

/** What the tests of `test-e2e/orms/habits.test.ts` have shown of each ORM. */
export function ormHabitTable(): string {
  return table(
    ['', ...ORM_NAMES],
    Object.entries(HABITS).map(([habit, found]) => [
      habit,
      ...ORM_NAMES.map((name) => {
        const each = found[name]
        return each === undefined ? '–' : SHOWN[each]
      }),
    ]),
  )
}
