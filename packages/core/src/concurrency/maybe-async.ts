/**
 * A value, or a promise of it. Most functions of a user are not asynchronous, and to await what is no promise costs
 * a turn of the queue, several times per delivery.
 */
export type MaybeAsync<Value> = Value | Promise<Value>

export function isPromise<Value>(value: MaybeAsync<Value>): value is Promise<Value> {
  return value instanceof Promise
}

/** Whether `await` would wait for it: promises of other libraries are no instances of ours. */
export function isThenable<Value>(value: Value | PromiseLike<Value>): value is PromiseLike<Value> {
  return typeof value === 'object' && value !== null && 'then' in value
}

/** `next` of the value: at once, unless it must be waited for. */
export function andThen<Value, Next>(
  value: MaybeAsync<Value>,
  next: (value: Value) => MaybeAsync<Next>,
): MaybeAsync<Next> {
  return isPromise(value) ? value.then(next) : next(value)
}
