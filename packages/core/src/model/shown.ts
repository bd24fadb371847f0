const LONGEST_VALUE = 80

/** A URL, a list of `name=value` with a password in it, or something long before an @: it may hold a secret. */
const MAY_BE_SECRET =
  /:\/\/|@|\b(?:password|passwd|pwd|secret|token|accesskey|sharedaccesskey)\s*=/i

/**
 * A text of the user's as an error or a log line may hold it: one line, bounded, and without what looks like a
 * connection string. Options are mistaken for each other, and an error text goes to places where secrets must not go.
 */
export function shown(text: string): string {
  if (MAY_BE_SECRET.test(text)) {
    return `<${text.length} characters that look like a connection string>`
  }
  const line = JSON.stringify(text.slice(0, LONGEST_VALUE)).slice(1, -1)
  return text.length > LONGEST_VALUE ? `${line}…` : line
}
