import { endsWithin } from '../adapter/consumption.ts'
import type { Runtime } from '../model/runtime.ts'

/** A call that got no answer in time; it may have been carried out. */
export class CallTimeoutError extends Error {
  override readonly name = 'TimeoutError'
  readonly code = 'ETIMEDOUT'

  constructor(call: string, budgetMs: number) {
    super(`${call} got no answer within ${budgetMs} ms`)
  }
}

/** The call's answer, or {@link CallTimeoutError} when its time is over. */
export async function withTimeout<T>(
  runtime: Runtime,
  promise: Promise<T>,
  { call, budgetMs }: { readonly call: string; readonly budgetMs: number },
): Promise<T> {
  if (!(await endsWithin(runtime, promise, budgetMs))) throw new CallTimeoutError(call, budgetMs)
  return promise
}
