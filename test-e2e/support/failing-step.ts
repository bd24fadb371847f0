/** Which step of a client fails, and what it was. */
export interface FailingStep {
  /** Counted from 1; 0 fails none. */
  readonly at: number
  readonly error: () => Error
  /** How many steps were made, the one that failed included. */
  made: number
  /** The method that failed. */
  failed: string | undefined
}

export const failingStep = (at: number, error: () => Error): FailingStep => ({
  at,
  error,
  made: 0,
  failed: undefined,
})

type Callable = (...args: readonly unknown[]) => unknown

/**
 * The client in whose place it stands, but one of its steps rejects instead of reaching the server. What its factories
 * make counts its steps too.
 *
 * @param steps - The methods that ask the server, of the client and of what it makes.
 * @param factories - The methods that make something that asks the server, at once or as a promise.
 * @param step - Asked at each step, so that one client can serve several starts.
 */
export function withFailingStep<Client extends object>(
  client: Client,
  names: { readonly steps: readonly string[]; readonly factories?: readonly string[] },
  step: () => FailingStep,
): Client {
  const { steps, factories = [] } = names
  const wrapped = (made: unknown): unknown =>
    typeof made === 'object' && made !== null ? withFailingStep(made, names, step) : made
  const called = (target: object, name: string, method: Callable): Callable => {
    const isStep = steps.includes(name)
    const isFactory = factories.includes(name)
    if (!isStep && !isFactory) return method.bind(target)
    return (...args) => {
      if (isStep) {
        const now = step()
        now.made += 1
        if (now.made === now.at) {
          now.failed = name
          return Promise.reject(now.error())
        }
      }
      const answer = method.apply(target, [...args])
      if (!isFactory) return answer
      return answer instanceof Promise ? answer.then(wrapped) : wrapped(answer)
    }
  }
  return new Proxy(client, {
    get: (target, property) => {
      const value = Reflect.get(target, property, target)
      if (typeof value !== 'function' || typeof property === 'symbol') return value
      return called(target, property, value as Callable)
    },
    set: (target, property, value) => Reflect.set(target, property, value, target),
  })
}
