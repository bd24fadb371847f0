/** How a wait with an end came out. */
export type Bounded<Value> =
  | { readonly kind: 'in-time'; readonly value: Value }
  | { readonly kind: 'late' }

/** Waits for `promise`, at most `boundMs`; what it brings later nobody hears of. Rejects as it does, in time. */
export function bounded<Value>(promise: Promise<Value>, boundMs: number): Promise<Bounded<Value>> {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(() => resolve({ kind: 'late' }), boundMs)
    promise.then(
      (value) => {
        clearTimeout(timer)
        resolve({ kind: 'in-time', value })
      },
      (error: unknown) => {
        clearTimeout(timer)
        reject(error)
      },
    )
  })
}
