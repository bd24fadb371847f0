import { isAggregateError, isError } from './realm.ts'

/** Most errors of an `AggregateError` that are named: it may hold any number of them, and also itself. */
const MOST_ERRORS = 100

/** What an error says, for texts that people read. An error without a message is named by what it holds, or by its name. */
export function messageOf(error: unknown): string {
  if (!isError(error)) return String(error)
  // Connecting to a host with several addresses, such as localhost, fails with an AggregateError without a message.
  if (error.message !== '') return error.message
  // Timeouts of node-redis are named by their class alone.
  if (!isAggregateError(error)) return String(error.constructor.name)
  // The members of a member are left out, because it may be the error itself.
  const messages = error.errors
    .slice(0, MOST_ERRORS)
    .map((each) => (isAggregateError(each) ? each.message || each.name : messageOf(each)))
  return messages.join(', ')
}
