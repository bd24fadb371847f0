import type { Logger } from '../model/logger.ts'
import { refuseProblems } from './run-options.ts'

/** What a check of the broker's settings found. Each text names the fix. */
export interface Findings {
  /** The consumer cannot work with these. */
  readonly problems: readonly string[]
  readonly warnings: readonly string[]
}

/** The text, if it was found. */
export const when = (found: boolean, text: string): readonly string[] => (found ? [text] : [])

/**
 * Logs every warning.
 *
 * @throws {@link ConfigurationError} with all problems at once.
 */
export function reportFindings(
  found: readonly Findings[],
  logger: Logger,
  fields: Readonly<Record<string, unknown>>,
): void {
  for (const finding of found.flatMap(({ warnings }) => warnings)) {
    logger.warn({ ...fields, finding }, "the broker's settings do not fit the guard's")
  }
  refuseProblems(found.flatMap(({ problems }) => problems))
}
