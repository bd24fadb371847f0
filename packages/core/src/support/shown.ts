const LONGEST_VALUE = 80

/** Matches text that may contain a secret: a URL, `name=value` pairs with a password, or a long text before an @. */
const MAY_BE_SECRET =
  /:\/\/|@|\b(?:password|passwd|pwd|secret|token|accesskey|sharedaccesskey)\s*=/i

/** A secret access key of AWS: forty characters of base64, of all kinds. */
const AWS_SECRET = /^(?=.*[a-z])(?=.*[A-Z])(?=.*\d)[A-Za-z0-9/+]{40}$/

/**
 * Whether a text is a connection string and no name. A program that was given one under a wrong option refuses it,
 * because names get into errors, log lines and the names of topics and queues.
 */
export const isConnectionString = (text: string): boolean => text.includes('://')

/**
 * A user's text as errors and log lines may show it: one line, bounded, and without connection strings. Users confuse
 * options, and error texts go to places where secrets must not go.
 */
export function shown(text: string): string {
  if (MAY_BE_SECRET.test(text)) {
    return `<${text.length} characters that look like a connection string>`
  }
  if (AWS_SECRET.test(text)) return `<${text.length} characters that look like a secret key>`
  const line = JSON.stringify(text.slice(0, LONGEST_VALUE)).slice(1, -1)
  return text.length > LONGEST_VALUE ? `${line}…` : line
}
