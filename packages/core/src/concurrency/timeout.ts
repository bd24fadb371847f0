import type { Runtime } from '../model/runtime.ts'

/** Marks an answer that did not come in time. */
export const LATE: unique symbol = Symbol('onceward.late')

/**
 * The promise's answer, or {@link LATE} after `limitMs`. Rejects if the promise rejects in time. A late result is
 * ignored.
 *
 * @param options - `keepAlive: false` lets the process end during the wait.
 */
export function answerWithin<Value>(
  runtime: Runtime,
  promise: Promise<Value>,
  limitMs: number,
  options?: { readonly keepAlive: boolean },
): Promise<Value | typeof LATE> {
  return new Promise((resolve, reject) => {
    const cancel = runtime.setTimer(() => resolve(LATE), limitMs, options)
    promise.then(
      (value) => {
        cancel()
        resolve(value)
      },
      (error: unknown) => {
        cancel()
        reject(error)
      },
    )
  })
}

/** Whether the promise settles within `limitMs`. Never rejects. */
export function endsWithin(
  runtime: Runtime,
  promise: Promise<unknown>,
  limitMs: number,
): Promise<boolean> {
  return answerWithin(runtime, promise, limitMs).then(
    (answer) => answer !== LATE,
    () => true,
  )
}

/** A call got no answer in time. The other side may still have carried it out. */
export class CallTimeoutError extends Error {
  override readonly name = 'TimeoutError'
  readonly code = 'ETIMEDOUT'

  constructor(call: string, budgetMs: number) {
    super(`${call} got no answer within ${budgetMs} ms`)
  }
}

/**
 * Returns the call's answer.
 *
 * @throws {@link CallTimeoutError} if no answer comes within `budgetMs`.
 */
export async function withTimeout<T>(
  runtime: Runtime,
  promise: Promise<T>,
  { call, budgetMs }: { readonly call: string; readonly budgetMs: number },
): Promise<T> {
  const answer = await answerWithin(runtime, promise, budgetMs)
  if (answer === LATE) throw new CallTimeoutError(call, budgetMs)
  return answer
}

/** Keeps the promise in the set until it settles, so that a shutdown can wait for calls that timed out. */
export function track<T>(set: Set<Promise<unknown>>, promise: Promise<T>): Promise<T> {
  set.add(promise)
  const remove = (): boolean => set.delete(promise)
  promise.then(remove, remove)
  return promise
}
