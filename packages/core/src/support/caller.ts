import { ConfigurationError } from '../model/errors.ts'

/**
 * Does the work of `entry`, a function that users call. The stack of a {@link ConfigurationError} then begins at their call:
 * a process that ends by it shows their line and the sentence, and not first the frames of onceward, which say nothing about
 * the mistake. Its message and its cause stay.
 *
 * An `entry` that is async awaits the result itself: only a function that still waits is found in the stack.
 */
export function forCaller<Result>(entry: object, work: () => Result): Result {
  const blame = (error: unknown): never => {
    if (error instanceof ConfigurationError) beginAtCallOf(entry, error)
    throw error
  }
  try {
    const result = work()
    return result instanceof Promise ? (result.catch(blame) as Result) : result
  } catch (error) {
    return blame(error)
  }
}

function beginAtCallOf(entry: object, error: Error): void {
  const found: { stack?: string } = {}
  // Not every browser has it.
  Error.captureStackTrace?.(found, entry as () => void)
  // Runtimes without frames of functions that wait find nothing. The error's own stack is not read: Node shows the line of
  // one that nobody has read.
  if (/\n +at /.test(found.stack ?? '')) Error.captureStackTrace(error, entry as () => void)
}
