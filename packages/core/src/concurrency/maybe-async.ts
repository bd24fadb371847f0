/**
 * A value, or a promise of it. Most user functions are synchronous. Awaiting their results would cost one microtask
 * each, several times per delivery.
 */
export type MaybeAsync<Value> = Value | Promise<Value>

export function isPromise<Value>(value: MaybeAsync<Value>): value is Promise<Value> {
  return value instanceof Promise
}

/** Whether `await` would wait for the value. Promises of other libraries are not instances of `Promise`. */
export function isThenable<Value>(value: Value | PromiseLike<Value>): value is PromiseLike<Value> {
  return typeof value === 'object' && value !== null && 'then' in value
}

/** Calls `next` with the value: immediately, unless the value is a promise. */
export function andThen<Value, Next>(
  value: MaybeAsync<Value>,
  next: (value: Value) => MaybeAsync<Next>,
): MaybeAsync<Next> {
  return value instanceof Promise ? value.then(next) : next(value)
}

/** As {@link andThen}, for the answer of a user's function, which may be a promise of another library. */
export function afterAnswer<Answer, Next>(
  answer: Answer | PromiseLike<Answer>,
  next: (answer: Answer) => MaybeAsync<Next>,
): MaybeAsync<Next> {
  return isThenable(answer) ? Promise.resolve(answer).then(next) : next(answer)
}
