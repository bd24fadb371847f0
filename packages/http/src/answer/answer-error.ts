import { OncewardError } from '@onceward/core'

/**
 * The answer of a handler cannot be stored, so a retry could not get it again. Nothing of the run was committed.
 *
 * Without an inbox the effect has happened. Then a problem with status 500 is stored instead, and retries get it.
 */
export class AnswerError extends OncewardError {
  static override readonly name: string = 'AnswerError'
  readonly code = 'ONCEWARD_ANSWER'
}
