import { RetryableError } from '../model/errors.ts'
import { hasMethod } from '../model/misplaced.ts'

const UNRUN =
  'The handler returned a function, a generator or a query that nobody runs, and its effects were not committed. Run ' +
  'it in the handler: `async (events, { tx }) => { await … }`.'

/**
 * What else a handler for batches returns is ignored. This is an effect that has not happened.
 *
 * @throws {@link RetryableError}
 */
export function refuseUnrun(value: unknown): void {
  const isUnrun =
    typeof value === 'function' || ['next', 'execute'].some((name) => hasMethod(value, name))
  if (isUnrun) throw new RetryableError(UNRUN)
}
