/** Keeps the promise in the set until it has settled. */
export function track<T>(set: Set<Promise<unknown>>, promise: Promise<T>): Promise<T> {
  set.add(promise)
  const forget = (): boolean => set.delete(promise)
  promise.then(forget, forget)
  return promise
}
