import { CASE_NAMES, ORM_TABLE } from '../packages/postgres/src/fixtures/orms/table.ts'
import { HABITS, type Habit, ORM_NAMES } from '../test-e2e/orms/habits-table.ts'
import { table } from './docs-table.ts'

/** The cases that `packages/postgres/src/orms.int.test.ts` plays with each ORM, and the ORMs that differ. */
export function ormCases(): string {
  return CASE_NAMES.map((name) => {
    const differing = Object.entries(ORM_TABLE).flatMap(([orm, { differs }]) => {
      const how = differs?.[name]
      return how === undefined ? [] : [`${orm}: ${how}`]
    })
    return `- ${[name, ...differing].join('; ')}`
  }).join('\n')
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
