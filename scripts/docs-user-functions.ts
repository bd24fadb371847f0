import {
  CONSEQUENCES,
  USER_FUNCTIONS,
  type UserFunctionName,
} from '../packages/core/src/fixtures/user-function-rules.ts'
import { code, table } from './docs-table.ts'

/** Names that are no option of the guard. */
const NAMED: Partial<Record<UserFunctionName, string>> = {
  handler: 'the handler',
  connection: 'the connection function of `consumeAmqp`',
}

/** One row for all functions with the same consequences; an equal one is said once. */
export function userFunctionTable(): string {
  const names = Object.keys(USER_FUNCTIONS) as UserFunctionName[]
  const rows = names.map((name) => {
    const { nonsense, promise, silence, throws } = USER_FUNCTIONS[name]
    const [thrown, awaited, silent, other] = [throws, promise, silence, nonsense].map(
      (consequence) => CONSEQUENCES[consequence],
    )
    const without = silent === thrown ? thrown : `${thrown} Without an answer: ${silent}`
    return { name: NAMED[name] ?? code(name), cells: [without, awaited, other].map(String) }
  })
  return table(
    ['Function', 'It throws, rejects or never answers', 'A promise', 'Another value'],
    [...Map.groupBy(rows, ({ cells }) => cells.join('|')).values()].map((same) => [
      same.map(({ name }) => name).join(', '),
      ...(same[0]?.cells ?? []),
    ]),
  )
}
