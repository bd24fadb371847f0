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

export const userFunctionTable = (): string =>
  table(
    [
      'Function',
      'It throws or rejects',
      'It answers a promise',
      'It never answers',
      'It answers something else',
    ],
    (Object.keys(USER_FUNCTIONS) as UserFunctionName[]).map((name) => {
      const { nonsense, promise, silence, throws } = USER_FUNCTIONS[name]
      const row = [throws, promise, silence, nonsense].map(
        (consequence) => CONSEQUENCES[consequence],
      )
      return [NAMED[name] ?? code(name), ...row]
    }),
  )
