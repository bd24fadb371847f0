import { statementTokens } from './statement-tokens.ts'

/** Every transaction control statement contains one of these words. */
const SUSPECT = /\b(?:commit|end|rollback|abort|begin|start|prepare)\b/i

/**
 * Finds transaction control in a text of one or more statements: `commit end rollback abort begin start` and
 * `prepare transaction`, also behind comments. `savepoint`, `release` and `rollback to` are allowed.
 *
 * @returns The words that begin the offending statement.
 */
export function transactionControl(text: string): string | undefined {
  if (!SUSPECT.test(text)) return undefined
  // A setting of the session decides whether \ escapes in plain strings, so both readings must be harmless.
  return findControl(text, false) ?? (text.includes('\\') ? findControl(text, true) : undefined)
}

function findControl(text: string, escapes: boolean): string | undefined {
  let words: string[] = []
  for (const token of statementTokens(text, escapes)) {
    if (token !== ';') words.push(token)
    else if (isControl(words)) break
    else words = []
  }
  return isControl(words) ? words.slice(0, 2).join(' ') : undefined
}

function isControl([first, ...rest]: readonly string[]): boolean {
  switch (first) {
    case 'commit':
    case 'end':
    case 'abort':
    case 'begin':
    case 'start':
      return true
    case 'prepare':
      return rest[0] === 'transaction'
    case 'rollback':
      return rest.find((word) => word !== 'work' && word !== 'transaction') !== 'to'
    default:
      return false
  }
}
