/** The machine's clock, timers and randomness, by owner. */
const WATCHED: readonly (readonly [owner: object, names: readonly string[]])[] = [
  [Date, ['now']],
  [performance, ['now']],
  [Math, ['random']],
  [globalThis, ['setTimeout', 'setInterval']],
]

/**
 * Records every read of the machine's clock, timers or randomness. A schedule must not depend on any of them: the same
 * seed would run differently on another machine, or a second later.
 *
 * Only for a thread that runs nothing but schedules: the functions still work, but stay replaced.
 *
 * @returns A function that answers the reads since its last call.
 */
export function watchRealTime(): () => readonly string[] {
  const reads = new Set<string>()
  for (const [owner, names] of WATCHED) {
    for (const name of names) {
      const original: unknown = Reflect.get(owner, name)
      if (typeof original !== 'function') continue
      Reflect.set(owner, name, (...args: unknown[]): unknown => {
        reads.add(name)
        return Reflect.apply(original, owner, args)
      })
    }
  }
  return () => {
    const taken = [...reads]
    reads.clear()
    return taken
  }
}
