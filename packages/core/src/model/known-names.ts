import { ConfigurationError } from './errors.ts'
import { shown } from './shown.ts'

/** Names of options; `true` for each, so that the compiler demands all fields of an interface. */
export type KnownNames<Options> = Readonly<Record<keyof Options & string, true>>

/**
 * Refuses an options argument that is no object, and names in it that the function does not have: a misspelt option
 * would be its default, silently.
 *
 * @param caller - The function that was called, as its user writes it.
 * @throws {@link ConfigurationError}: `consumeSqs does not know "queueURL", did you mean "queueUrl"?`
 */
export function refuseUnknownNames<Options extends object>(
  caller: string,
  options: Options,
  known: KnownNames<Options>,
): void {
  if (typeof options !== 'object' || options === null || Array.isArray(options)) {
    const got = options === null ? 'null' : Array.isArray(options) ? 'an array' : typeof options
    throw new ConfigurationError(`${caller} expected an object of options, got ${got}.`)
  }
  const problems = unknownNames(caller, Object.keys(options), Object.keys(known))
  if (problems.length > 0) throw new ConfigurationError(problems.join('\n'))
}

/** A sentence for each name that is not known. */
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

/** The known name that the writer most likely meant, if one is near. */
function nearestOf(name: string, known: readonly string[]): string | undefined {
  const ranked = known
    .map((candidate) => ({ candidate, distance: distanceOf(plain(name), plain(candidate)) }))
    .sort((one, other) => one.distance - other.distance)
  const [best] = ranked
  if (best === undefined) return undefined
  const reach = Math.max(2, Math.floor(best.candidate.length / 3))
  if (best.distance <= reach && best.distance < best.candidate.length) return best.candidate
  return known.find((candidate) => beginsAlike(plain(name), plain(candidate)))
}

/** `queue_URL`, `queue-url` and `queueUrl` are alike. */
const plain = (name: string): string =>
  name
    .slice(0, 64)
    .toLowerCase()
    .replace(/[^a-z0-9.]/g, '')

const SHORTEST_BEGINNING = 4

/** Whether half of the known name was written, such as `visibilityTimeoutMs` for `visibilityMs`. */
function beginsAlike(name: string, candidate: string): boolean {
  const needed = Math.max(SHORTEST_BEGINNING, Math.ceil(candidate.length / 2))
  return candidate.length >= needed && name.startsWith(candidate.slice(0, needed))
}

/** Letters to insert, remove, replace or swap with their neighbour (optimal string alignment). */
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
