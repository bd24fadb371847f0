/** What the getters of an object read. Not enumerable: a copy has their values instead. */
const STATE: unique symbol = Symbol('state of the getters')

interface WithState<State> {
  readonly [STATE]: State
}

/**
 * A getter for {@link withGetters}: a property of the object itself, so that a spread copies its value. It also works for
 * objects that inherit it, and behind a proxy.
 */
export function ownGetter<State>(read: (state: State) => unknown): PropertyDescriptor {
  return {
    get(this: WithState<State>) {
      return read(this[STATE])
    },
    enumerable: true,
    configurable: true,
  }
}

/**
 * Adds getters to an object, for objects that are made for every event: V8 gives each object whose literal has a getter
 * the slow form of a dictionary. These share their getters, and read their own state.
 */
export function withGetters<Made extends object>(
  fields: Partial<Made>,
  state: unknown,
  getters: readonly (readonly [name: keyof Made, getter: PropertyDescriptor])[],
): Made {
  for (const [name, getter] of getters) Object.defineProperty(fields, name, getter)
  Object.defineProperty(fields, STATE, { value: state })
  return fields as Made
}

/** The state that {@link withGetters} gave an object itself. */
export const stateOf = (made: object): unknown => (made as Partial<WithState<unknown>>)[STATE]
