import { ConfigurationError } from '../model/errors.ts'
import { shown } from './shown.ts'

/** Names of options. Each is `true`, so that the compiler demands all fields of an interface. */
export type KnownNames<Options> = Readonly<Record<keyof Options & string, true>>

/** @throws {@link ConfigurationError} if it is not an object of options, and for unknown names, all at once. */
export function refuseUnknownNames<Options extends object>(
  caller: string,
  options: Options,
  known: KnownNames<Options>,
): void {
  refuseNoObject(caller, options)
  const problems = nameProblems(caller, options, Object.keys(known))
  if (problems.length > 0) throw new ConfigurationError(problems.join('\n'))
}

/** @throws {@link ConfigurationError} that names the type alone: what was given may be a connection string. */
export function refuseNoObject(caller: string, options: unknown): void {
  if (typeof options === 'object' && options !== null && !Array.isArray(options)) return
  const got = options === null ? 'null' : Array.isArray(options) ? 'an array' : typeof options
  throw new ConfigurationError(`${caller} expected an object of options, got ${got}.`)
}

/**
 * One text for each unknown name, which would silently leave an option at its default, and for each known name on the
 * prototype, which a copy of the options would not have: without its `tenant`, events of two tenants would be duplicates.
 *
 * @param group - Of a nested object, such as `batch.`
 */
export function nameProblems(
  caller: string,
  options: object,
  known: readonly string[],
  group = '',
): readonly string[] {
  const given = Object.entries(options).filter(([, value]) => value !== undefined)
  const unknown = given.map(([name]) => name).filter((name) => !known.includes(name))
  const inherited = known.filter((name) => name in options && !Object.hasOwn(options, name))
  const all = known.map((name) => group + name).join(', ')
  return [
    ...unknown.map((name) => {
      const nearest = nearestOf(name, known)
      const advice =
        nearest === undefined ? `. It knows: ${all}.` : `, did you mean "${group}${nearest}"?`
      return `${caller} does not know "${shown(group + name)}"${advice}`
    }),
    ...inherited.map(
      (name) =>
        `Expected \`${name}\` to be a member of the options of \`${caller}\`, got one of their prototype. Give a plain object.`,
    ),
  ]
}

/** The known name that is spelled like the given one, or begins with the same letters. */
function nearestOf(name: string, known: readonly string[]): string | undefined {
  const letters = plain(name)
  const ranked = known
    .map((each) => ({ each, distance: distanceOf(letters, plain(each)) }))
    .sort((one, other) => one.distance - other.distance)
  const isNear = ({ each, distance }: { each: string; distance: number }): boolean =>
    distance < each.length && distance <= Math.max(2, each.length / 3)
  const beginning = (each: string): string => plain(each).slice(0, Math.max(4, each.length / 2))
  return (ranked.find(isNear) ?? ranked.find(({ each }) => letters.startsWith(beginning(each))))
    ?.each
}

/** `queue_URL`, `queue-url` and `queueUrl` are equal. */
const plain = (name: string): string =>
  name
    .slice(0, 64)
    .toLowerCase()
    .replace(/[^a-z0-9]/g, '')

/** The number of letters to insert, delete and replace (Levenshtein). */
function distanceOf(one: string, other: string): number {
  let last = Array.from({ length: other.length + 1 }, (_, at) => at)
  for (let row = 1; row <= one.length; row++) {
    const line = [row]
    for (let at = 1; at <= other.length; at++) {
      const replaced = (last[at - 1] ?? 0) + (one[row - 1] === other[at - 1] ? 0 : 1)
      line.push(Math.min((last[at] ?? 0) + 1, (line[at - 1] ?? 0) + 1, replaced))
    }
    last = line
  }
  return last[other.length] ?? 0
}

/** Where a misplaced value belongs, recognized by a method. The value may contain a password, so it is never shown. */
const BELONGS: readonly (readonly [method: string, advice: string])[] = [
  ['$with', 'A database of Drizzle goes into `drizzleInbox(db, { connectionString })`.'],
  ['reserve', 'A client of postgres.js goes into `postgresJsInbox(sql)`.'],
  ['$transaction', 'A client of Prisma goes into `prismaInbox(prisma, { connectionString })`.'],
  ['createQueryRunner', 'A DataSource of TypeORM goes into `typeormInbox(dataSource, …)`.'],
  ['getExecutor', 'A Kysely instance goes into `kyselyInbox(db)`.'],
  ['evalsha', 'A Redis client goes into `leases: redisLeases(redis)`.'],
  ['evalSha', 'A Redis client goes into `leases: redisLeases(redis)`.'],
  ['query', 'A pool of pg, not one client, goes into `pgInbox(pool)` or `postgresLeases(pool)`.'],
  ['claim', 'A lease store goes into `leases`.'],
  ['then', 'Await the promise first.'],
  ['open', 'An inbox goes into `inbox`.'],
  ['call', 'Call the function first.'],
  ['trim', 'Make a client first, such as `new Pool({ connectionString })` or `new Redis(url)`.'],
]

export const adviceFor = (value: unknown): string | undefined =>
  BELONGS.find(([method]) => hasMethod(value, method))?.[1]

export const hasMethod = (value: unknown, method: string): boolean =>
  typeof Reflect.get(Object(value), method) === 'function'

/**
 * Without it the TypeError of each call would look like a store or a broker that is down, which is retried without end.
 *
 * @param place - The function that got the value.
 * @throws {@link ConfigurationError} that says what to write, and never shows the value.
 */
export function refuseUnfitClient(
  place: string,
  value: unknown,
  { expected, methods, field, advice = adviceFor(value) ?? 'Give the client itself.' }: ClientRule,
): void {
  const hasField = field === undefined || typeof Reflect.get(Object(value), field) === 'object'
  if (hasField && methods.every((method) => hasMethod(value, method))) return
  const got = value === null ? 'null' : typeof value
  throw new ConfigurationError(`Expected ${place} to get ${expected}, got ${got}. ${advice}`)
}

export interface ClientRule {
  readonly expected: string
  readonly methods: readonly string[]
  /** An object that it has besides. */
  readonly field?: string
  readonly advice?: string
}
