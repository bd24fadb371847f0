// `set local synchronous_commit` is no COMMIT, and an identifier may end in `end`.
const COMMIT = /(?:^|;)\s*(?:commit|end)(?=\s*(?:;|$)|\s+(?:work|transaction|and)\b)/i
const BEGIN = /(?:^|;)\s*(?:begin|start\s+transaction)\b/i
const ROLLBACK = /(?:^|;)\s*(?:rollback|abort)(?=\s*(?:;|$)|\s+(?:work|transaction|and)\b)/i
/** Text between quotes. */
const LITERAL = /'([^']*)'/g
/** A longer text is no statement that controls a transaction, but may be data. */
const LONGEST_CONTROL = 64_000

/** How a text of SQL, which may be several statements, changes the transaction of its connection. */
export interface Control {
  readonly commits: boolean
  readonly rollsBack: boolean
  /** Where it begins a transaction; undefined if it does not. */
  readonly beginsAt: number | undefined
  /** It ends one transaction, and begins the next one behind that. */
  readonly endsFirst: boolean
}

const NONE: Control = { commits: false, rollsBack: false, beginsAt: undefined, endsFirst: false }

/** Finds BEGIN, COMMIT and ROLLBACK among the statements of a text. */
export function controlOf(text: string): Control {
  if (text.length > LONGEST_CONTROL) return NONE
  const bare = withoutComments(text)
  const [begin, commit, rollback] = [BEGIN, COMMIT, ROLLBACK].map((each) => bare.search(each))
  const found = (at = -1): boolean => at >= 0
  const ends = [commit, rollback].filter(found).map(Number)
  return {
    commits: found(commit),
    rollsBack: found(rollback),
    beginsAt: found(begin) ? begin : undefined,
    endsFirst: found(begin) && ends.some((at) => at < Number(begin)),
  }
}

/** Tracing tools write comments. What stands behind them keeps its place. */
function withoutComments(text: string): string {
  let bare = text
  for (let at = bare.indexOf('/*'); at >= 0; at = bare.indexOf('/*', at)) {
    const end = bare.indexOf('*/', at + 2)
    const next = end < 0 ? bare.length : end + 2
    bare = bare.slice(0, at) + ' '.repeat(next - at) + bare.slice(next)
  }
  return bare
}

/** Values that stand in the text itself. */
export const literalsOf = (text: string): readonly string[] =>
  [...text.matchAll(LITERAL)].map(([, value = '']) => value)
