/**
 * What a text of SQL consists of, outside of strings and comments: words in lower case, quoted names with their quotes,
 * and the marks `;`, `(` and `.`. https://www.postgresql.org/docs/current/sql-syntax-lexical.html
 *
 * @param escapes - Whether \ escapes in plain strings, which a setting of the session decides.
 */
export function* statementTokens(text: string, escapes: boolean): Generator<string> {
  for (const { token } of placedTokens(text, escapes)) yield token
}

/** A word or a mark, and where it stands in its text. */
export interface PlacedToken {
  readonly token: string
  readonly start: number
  readonly end: number
}

/** As {@link statementTokens}, with their places. */
export function* placedTokens(text: string, escapes: boolean): Generator<PlacedToken> {
  let at = 0
  const take = (pattern: RegExp): string | undefined => {
    pattern.lastIndex = at
    const found = pattern.exec(text)?.[0]
    at += found?.length ?? 0
    return found
  }
  while (at < text.length) {
    const start = at
    const word = take(WORD)
    if (word !== undefined) {
      yield { token: word.toLowerCase(), start, end: at }
      if (/^e$/i.test(word) && text[at] === "'") at = endOfQuoted(text, at, ENDS_ESCAPED)
      continue
    }
    const mark = take(MARK)
    if (mark !== undefined) {
      yield { token: mark, start, end: at }
    } else if (text[at] === '"') {
      at = endOfQuoted(text, at, ENDS_NAME)
      // A quote that opens no name is not part of a statement that runs.
      if (at > start + 1) yield { token: text.slice(start, at), start, end: at }
    } else if (text[at] === "'") {
      at = endOfQuoted(text, at, escapes ? ENDS_ESCAPED : ENDS_STRING)
    } else if (text.startsWith('/*', at)) {
      at = endOfComment(text, at)
    } else if (text[at] === '$') {
      const quote = take(DOLLAR_QUOTE)
      at = quote === undefined ? at + 1 : endOf(text, quote, at)
    } else if (take(LINE_COMMENT) === undefined) {
      at += 1
    }
  }
}

const WORD = /[a-z_\u0080-\uffff][\w$\u0080-\uffff]*/iy
const MARK = /[;(.]/y
const LINE_COMMENT = /--[^\r\n]*/y
const ENDS_NAME = /"/g
const ENDS_STRING = /'/g
const ENDS_ESCAPED = /['\\]/g
const DOLLAR_QUOTE = /\$(?:[a-z_\u0080-\uffff][\w\u0080-\uffff]*)?\$/iy

/**
 * The end of a string or a quoted name, or the next character if it does not end. In a loop, because an expression for the
 * whole of a string of some megabytes overflows the stack.
 */
function endOfQuoted(text: string, start: number, ends: RegExp): number {
  const quote = text[start]
  ends.lastIndex = start + 1
  for (let found = ends.exec(text); found !== null; found = ends.exec(text)) {
    const after = ends.lastIndex
    // A quote that is doubled, and what follows \, belong to the string.
    if (found[0] === quote && text[after] !== quote) return after
    ends.lastIndex = after + 1
  }
  return start + 1
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
