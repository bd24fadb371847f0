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
  for (const token of tokens(text, escapes)) {
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

/** A word outside of strings and comments. */
const WORD = /[a-z_\u0080-\uffff][\w$\u0080-\uffff]*/iy
const LINE_COMMENT = /--[^\r\n]*/y
const QUOTED_NAME = /"(?:[^"]|"")*"/y
const STRING = /'(?:[^']|'')*'/y
const ESCAPED_STRING = /'(?:[^'\\]|''|\\.)*'/sy
const DOLLAR_QUOTE = /\$(?:[a-z_\u0080-\uffff][\w\u0080-\uffff]*)?\$/iy

/** The words in lower case and the semicolons; https://www.postgresql.org/docs/current/sql-syntax-lexical.html */
function* tokens(text: string, escapes: boolean): Generator<string> {
  let at = 0
  const take = (pattern: RegExp): string | undefined => {
    pattern.lastIndex = at
    const found = pattern.exec(text)?.[0]
    at += found?.length ?? 0
    return found
  }
  while (at < text.length) {
    const word = take(WORD)
    if (word !== undefined) {
      yield word.toLowerCase()
      if (/^e$/i.test(word)) take(ESCAPED_STRING)
    } else if (text[at] === ';') {
      at += 1
      yield ';'
    } else if (text.startsWith('/*', at)) {
      at = endOfComment(text, at)
    } else if (text[at] === '$') {
      const quote = take(DOLLAR_QUOTE)
      at = quote === undefined ? at + 1 : endOf(text, quote, at)
    } else if (
      take(LINE_COMMENT) === undefined &&
      take(QUOTED_NAME) === undefined &&
      take(escapes ? ESCAPED_STRING : STRING) === undefined
    ) {
      at += 1
    }
  }
}

/** The end of a block comment. Comments nest. */
function endOfComment(text: string, start: number): number {
  const mark = /\/\*|\*\//g
  mark.lastIndex = start
  let depth = 0
  for (let found = mark.exec(text); found !== null; found = mark.exec(text)) {
    depth += found[0] === '/*' ? 1 : -1
    if (depth === 0) return mark.lastIndex
  }
  return text.length
}

function endOf(text: string, quote: string, from: number): number {
  const end = text.indexOf(quote, from)
  return end < 0 ? text.length : end + quote.length
}
