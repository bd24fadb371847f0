/** `target` with some methods replaced. The others run on the target itself, which has the private fields. */
export function withReplacedMethods<Target extends object>(
  target: Target,
  methods: Partial<Target>,
): Target {
  return new Proxy(target, {
    get: (_target, name) => {
      const own: unknown = Reflect.get(methods, name)
      if (own !== undefined) return own
      const value: unknown = Reflect.get(target, name)
      return typeof value === 'function' ? value.bind(target) : value
    },
  })
}
