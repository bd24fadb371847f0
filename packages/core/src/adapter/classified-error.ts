import { OncewardError } from '../model/errors.ts'

/** What a failed call means; `classifyError` of each adapter answers it. */
export interface ClassifiedError<Kind extends string> {
  readonly kind: Kind
  /** For logs and `health().reason`. */
  readonly text: string
}

/** Inverts a table of the names that mean one kind. */
export function kindsByName<Kind extends string>(
  names: Readonly<Record<Kind, readonly string[]>>,
): ReadonlyMap<string, Kind> {
  const kinds = Object.entries(names) as [Kind, readonly string[]][]
  return new Map(kinds.flatMap(([kind, each]) => each.map((name) => [name, kind] as const)))
}

export const isStoreDown = (error: unknown): boolean =>
  OncewardError.is(error) && error.code === 'ONCEWARD_STORE_UNAVAILABLE'

/** An error that no retry mends, such as a mistake in the configuration. */
export const isFatal = (error: unknown): error is OncewardError =>
  OncewardError.is(error) && !isStoreDown(error)
