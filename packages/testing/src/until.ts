/** How long {@link until} waits, how often it looks, and what it says when the time is over. */
export interface UntilOptions {
  /** What is awaited, for the error; default: the source of the condition. */
  readonly what?: string | undefined
  readonly deadlineMs?: number | undefined
  readonly everyMs?: number | undefined
}

/** Thrown by {@link until} when the deadline passed; `cause` is the last error of the condition. */
export class DeadlineError extends Error {
  override readonly name = 'DeadlineError'
}

// Long: it is only waited for when something is broken or the machine is very busy.
const DEADLINE_MS = 120_000

type Falsy = false | undefined | null | 0 | ''

/**
 * Waits until `condition` answers something truthy and returns it. A condition that throws counts
 * as "not yet", so that a test may put its assertions inside.
 */
export async function until<T>(
  condition: () => T | Falsy | Promise<T | Falsy>,
  options: UntilOptions = {},
): Promise<T> {
  const { deadlineMs = DEADLINE_MS, everyMs = 20 } = options
  const startedAt = performance.now()
  let last: unknown
  while (true) {
    try {
      const value = await within(startedAt + deadlineMs, condition)
      if (value) return value
      last = undefined
    } catch (error) {
      last = error
    }
    if (performance.now() - startedAt >= deadlineMs) throw missed(condition, options, last)
    await new Promise((resolve) => setTimeout(resolve, everyMs))
  }
}

/** A condition that never settles is "not yet" too. */
async function within<T>(endsAt: number, condition: () => T | Promise<T>): Promise<T | undefined> {
  const answer = condition()
  let timer: NodeJS.Timeout | undefined
  const over = new Promise<undefined>((resolve) => {
    timer = setTimeout(resolve, Math.max(0, endsAt - performance.now()), undefined)
  })
  try {
    return await Promise.race([answer, over])
  } finally {
    clearTimeout(timer)
  }
}

function missed(condition: unknown, options: UntilOptions, last: unknown): DeadlineError {
  const what = options.what ?? String(condition).replaceAll(/\s+/g, ' ').slice(0, 200)
  const reason =
    last === undefined ? '' : `; last error: ${last instanceof Error ? last.message : String(last)}`
  const waited = options.deadlineMs ?? DEADLINE_MS
  return new DeadlineError(`waited ${waited} ms for: ${what}${reason}`, { cause: last })
}
