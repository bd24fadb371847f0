import type { ResolvedOptions } from './resolved-options.ts'

/** What an event knows of its route. */
interface Typed {
  readonly type?: string | undefined
}

/** The type of a message that is not in `on`, in metrics and log lines: there may be any number of them. */
export const OTHER_TYPE = '_OTHER'

/** The options of an event: those of its type, where the guard has some. */
export function optionsOf(options: ResolvedOptions, { type }: Typed): ResolvedOptions {
  return (type === undefined ? undefined : options.routes?.byType.get(type)) ?? options
}

/** The options with the shortest deadline, for events that share a transaction: it ends when the first of them must. */
export function tightestOf(options: ResolvedOptions, events: readonly Typed[]): ResolvedOptions {
  let tightest: ResolvedOptions | undefined
  for (const event of events) {
    const own = optionsOf(options, event)
    if (tightest === undefined || own.deadlineMs < tightest.deadlineMs) tightest = own
  }
  return tightest ?? options
}

/** The longest that any event of the guard may take, or have. */
export function mostOf(options: ResolvedOptions, read: (of: ResolvedOptions) => number): number {
  return Math.max(...[options, ...(options.routes?.byType.values() ?? [])].map(read))
}
