import { expect, it } from 'vitest'
import { Savepoints } from './savepoints.ts'

/** Texts, and behind `+N` and `-N` a message that is kept, or that goes with its savepoint. */
const STEPS: readonly (readonly string[])[] = [
  ['+1', 'savepoint a', '-2', 'rollback to a', '+3'],
  ['savepoint a', '+1', 'release a', '+2'],
  ['savepoint a', '-1', 'rollback to savepoint "a"', '-2', 'rollback work to a', '+3'],
  ['SAVEPOINT a;', '-1', 'Rollback Transaction To a;', 'release savepoint a', '+2'],
  ['savepoint a', '-1', 'savepoint b', '-2', 'release b', '-3', 'rollback to a'],
  ['savepoint a', '+1', 'savepoint a', '-2', 'rollback to a', '+3', 'release a; release a'],
  ['savepoint a', '-1', 'savepoint b', '-2', '/* b */ rollback to -- b\n a', '+3'],
  ['savepoint a', '+1', 'savepoint b', '+2', 'release a', 'rollback to b'],
  ['savepoint a', '+1', "select 'rollback to a'", 'savepoint "A"', '-2', 'rollback to "A"'],
  ['savepoint a; insert into t values (1)', '-1', 'rollback to a; select 1', '+2'],
]

it.each(STEPS)('keeps what no savepoint undoes: %s, %s, %s, %s', (...steps) => {
  const savepoints = new Savepoints()
  const sent = steps.flatMap((step) => {
    if (/^[+-]/.test(step)) return [{ step, savepoint: savepoints.current }]
    savepoints.sent(step)
    return []
  })
  const found = sent.map(({ savepoint, step }) => [step, savepoint?.isRolledBack === true])
  expect(found).toEqual(sent.map(({ step }) => [step, step.startsWith('-')]))
})
