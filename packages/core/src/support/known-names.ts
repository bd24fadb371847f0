import { ConfigurationError } from '../model/errors.ts'
import { shown } from './shown.ts'

/** Names of options. Each is `true`, so that the compiler demands all fields of an interface. */
export type KnownNames<Options> = Readonly<Record<keyof Options & string, true>>

/**
 * Refuses an options argument that is not an object, and unknown option names. Otherwise a misspelt option would
 * silently have its default value.
 *
 * @param caller - The name of the called function, as its user writes it.
 * @throws {@link ConfigurationError}: `consumeSqs does not know "queueURL", did you mean "queueUrl"?`
 */
export function refuseUnknownNames<Options extends object>(
  caller: string,
  options: Options,
  known: KnownNames<Options>,
): void {
  refuseNoObject(caller, options)
  const problems = unknownNames(caller, Object.keys(options), Object.keys(known))
  if (problems.length > 0) throw new ConfigurationError(problems.join('\n'))
}

/** @throws {@link ConfigurationError} that names the type alone: what was given may be a connection string. */
export function refuseNoObject(caller: string, options: unknown): void {
  if (typeof options === 'object' && options !== null && !Array.isArray(options)) return
  const got = options === null ? 'null' : Array.isArray(options) ? 'an array' : typeof options
  throw new ConfigurationError(`${caller} expected an object of options, got ${got}.`)
}

/** One error text for each unknown name. */
export function unknownNames(
  caller: string,
  names: readonly string[],
  known: readonly string[],
): readonly string[] {
  return names
    .filter((name) => !known.includes(name))
    .map((name) => {
      const nearest = nearestOf(name, known)
      return nearest === undefined
        ? `${caller} does not know "${shown(name)}". It knows: ${known.join(', ')}.`
        : `${caller} does not know "${shown(name)}", did you mean "${nearest}"?`
    })
}

/**
 * One error text for each known name that stands on the prototype of the options. A copy of the options has no such member:
 * without the `tenant` that a class has as a method, the events of one tenant would be duplicates of those of another.
 */
export function inheritedNames(
  caller: string,
  options: object,
  known: readonly string[],
): readonly string[] {
  return known
    .filter((name) => name in options && !Object.hasOwn(options, name))
    .map(
      (name) =>
        `Expected \`${name}\` to be a member of the options of \`${caller}\`, got one of their prototype. Give a plain object: methods and getters of a class are not read.`,
    )
}

/**
 * The known name that is closest to the given one, if one is close enough. For a nested name such as `batch.sise` only the
 * part after the dot is compared.
 */
function nearestOf(name: string, known: readonly string[]): string | undefined {
  const group = name.slice(0, name.indexOf('.') + 1)
  const fields = known.filter((each) => each.startsWith(group))
  if (group === '' || fields.length === 0) return nearestField(name, known)
  const field = (each: string): string => each.slice(group.length)
  const nearest = nearestField(field(name), fields.map(field))
  return nearest === undefined ? undefined : `${group}${nearest}`
}

/** The same for names without a group. */
function nearestField(name: string, known: readonly string[]): string | undefined {
  const ranked = known
    .map((candidate) => ({ candidate, distance: distanceOf(plain(name), plain(candidate)) }))
    .sort((one, other) => one.distance - other.distance)
  const [best] = ranked
  if (best === undefined) return undefined
  const reach = Math.max(2, Math.floor(best.candidate.length / 3))
  if (best.distance <= reach && best.distance < best.candidate.length) return best.candidate
  return known.find((candidate) => beginsAlike(plain(name), plain(candidate)))
}

/** `queue_URL`, `queue-url` and `queueUrl` are equal. */
const plain = (name: string): string =>
  name
    .slice(0, 64)
    .toLowerCase()
    .replace(/[^a-z0-9.]/g, '')

const SHORTEST_BEGINNING = 4

/** Whether the two names begin alike, such as `visibilityTimeoutMs` and `visibilityMs`. */
function beginsAlike(name: string, candidate: string): boolean {
  const needed = Math.max(SHORTEST_BEGINNING, Math.ceil(candidate.length / 2))
  return candidate.length >= needed && name.startsWith(candidate.slice(0, needed))
}

/** The number of insertions, deletions, replacements and swaps of letters (optimal string alignment). */
function distanceOf(one: string, other: string): number {
  let [before, last] = [[] as number[], Array.from({ length: other.length + 1 }, (_, at) => at)]
  for (let row = 1; row <= one.length; row++) {
    const line = [row]
    for (let at = 1; at <= other.length; at++) {
      const isSame = one[row - 1] === other[at - 1]
      const isSwapped =
        row > 1 && at > 1 && one[row - 1] === other[at - 2] && one[row - 2] === other[at - 1]
      line[at] = Math.min(
        (last[at] ?? 0) + 1,
        (line[at - 1] ?? 0) + 1,
        (last[at - 1] ?? 0) + (isSame ? 0 : 1),
        isSwapped ? (before[at - 2] ?? 0) + 1 : Number.POSITIVE_INFINITY,
      )
    }
    ;[before, last] = [last, line]
  }
  return last[other.length] ?? 0
}
