import { placedTokens } from './statement-tokens.ts'

/** The savepoints of onceward have names that begin so. A savepoint of the handler with such a name would hide ours. */
export const OWN_SAVEPOINT = 'onceward_nested_'

/** Every transaction control statement contains one of these words. */
const SUSPECT = /\b(?:commit|end|rollback|abort|begin|start|prepare)\b|onceward_nested_/i

/** A statement that begins or ends a transaction. */
export interface TransactionControl {
  /** `own-name`: it names a savepoint of onceward. `other`: it has no counterpart inside of a transaction. */
  readonly kind: 'begin' | 'commit' | 'rollback' | 'own-name' | 'other'
  /** The words that begin the statement. */
  readonly words: string
  /** Of a `begin`. */
  readonly readOnly: boolean
  readonly isolated: boolean
  /** The place of the statement in its text. */
  readonly start: number
  readonly end: number
  /** Whether the text has no other statement. */
  readonly isAlone: boolean
}

const NONE: readonly TransactionControl[] = []

/**
 * Finds transaction control in a text of one or more statements: `commit end rollback abort begin start` and
 * `prepare transaction`, also behind comments. `savepoint`, `release` and `rollback to` are allowed.
 */
export function transactionControls(text: string): readonly TransactionControl[] {
  if (!SUSPECT.test(text)) return NONE
  const controls = findControls(text, false)
  if (!text.includes('\\')) return controls
  // A setting of the session decides whether \ escapes in plain strings, so both readings must be the same or harmless.
  const escaped = findControls(text, true)
  const isSame =
    controls.length === escaped.length &&
    controls.every(({ start, end }, at) => start === escaped[at]?.start && end === escaped[at]?.end)
  return isSame ? controls : [...controls, ...escaped].map(toOther)
}

const toOther = (control: TransactionControl): TransactionControl => ({ ...control, kind: 'other' })

function findControls(text: string, escapes: boolean): readonly TransactionControl[] {
  const controls: TransactionControl[] = []
  let statements = 0
  let words: string[] = []
  let [start, end] = [0, 0]
  let isBody = false
  const close = (): void => {
    if (words.length === 0) return
    statements += 1
    const kind = kindOf(words)
    const shown = words.slice(0, 2).join(' ')
    if (kind !== undefined) controls.push({ ...kind, words: shown, start, end, isAlone: false })
    words = []
  }
  for (const found of placedTokens(text, escapes)) {
    if (found.token === ';') {
      close()
      continue
    }
    if (words.length === 0) start = found.start
    // The body of a function in SQL has statements, and an `end` of its own.
    isBody ||= found.token === 'atomic' && words.at(-1) === 'begin'
    words.push(found.token)
    end = found.end
  }
  close()
  if (isBody) return controls.map(toOther)
  return statements === 1 ? controls.map((control) => ({ ...control, isAlone: true })) : controls
}

type Kind = Pick<TransactionControl, 'kind' | 'readOnly' | 'isolated'>

const plain = (kind: Kind['kind']): Kind => ({ kind, readOnly: false, isolated: false })
const OTHER = plain('other')
const OWN_NAME = plain('own-name')

function kindOf(words: readonly string[]): Kind | undefined {
  if (words.some((word) => word.replace('"', '').startsWith(OWN_SAVEPOINT))) return OWN_NAME
  const [first, second] = words
  const rest = words.slice(second === 'work' || second === 'transaction' ? 2 : 1)
  switch (first) {
    case 'begin':
      return begun(rest)
    case 'start':
      return second === 'transaction' ? begun(rest) : OTHER
    case 'commit':
    case 'end':
      return isPlainEnd(rest) ? plain('commit') : OTHER
    case 'abort':
      return isPlainEnd(rest) ? plain('rollback') : OTHER
    case 'rollback':
      if (rest[0] === 'to') return undefined
      return isPlainEnd(rest) ? plain('rollback') : OTHER
    case 'prepare':
      return second === 'transaction' ? OTHER : undefined
    default:
      return undefined
  }
}

const isPlainEnd = (rest: readonly string[]): boolean =>
  rest.length === 0 || rest.join(' ') === 'and no chain'

/** Outside of SERIALIZABLE, `deferrable` means nothing. */
const MODES =
  /^(?:isolation level (?:serializable|repeatable read|read (?:un)?committed)|read write|read only|(?:not )?deferrable)(?: |$)/

function begun(rest: readonly string[]): Kind {
  let modes = rest.join(' ')
  let [readOnly, isolated] = [false, false]
  for (let [mode] = MODES.exec(modes) ?? []; mode !== undefined; [mode] = MODES.exec(modes) ?? []) {
    isolated ||= mode.startsWith('isolation')
    if (mode.startsWith('read')) readOnly = mode.startsWith('read only')
    modes = modes.slice(mode.length)
  }
  return modes === '' ? { kind: 'begin', readOnly, isolated } : OTHER
}
