import { ConfigurationError, RetryableError } from '../model/errors.ts'

/** Where a store of a guard, or the client of a store, is expected. */
export type StorePlace =
  | 'inbox'
  | 'leases'
  | 'pgInbox'
  | 'kyselyInbox'
  | 'postgresLeases'
  | 'redisLeases'

type Found = 'text' | 'pg' | 'kysely' | 'redis' | 'inbox' | 'leases' | 'promise' | 'function'

const ONE_CONNECTION =
  'It is a single connection of pg, and a guard runs several transactions at a time. Give a pool: `new Pool({ connectionString })`.'

/** What a value of another kind should be written as. Its own text, which may hold a password, is never shown. */
const INSTEAD: Readonly<Record<StorePlace, Partial<Record<Found, string>>>> = {
  inbox: {
    text: 'Give an inbox on a client: `inbox: pgInbox(new Pool({ connectionString }))`.',
    pg: 'Write `inbox: pgInbox(pool)`.',
    kysely: 'Write `inbox: kyselyInbox(db)`.',
    redis: 'Redis cannot be an inbox. Write `leases: redisLeases(redis)`.',
    leases: 'A lease store cannot be an inbox. Write `leases: …`.',
    function: 'Call the function: `inbox: pgInbox(pool)`.',
  },
  leases: {
    text: 'Give leases on a client: `leases: redisLeases(new Redis(url))`.',
    redis: 'Write `leases: redisLeases(redis)`.',
    pg: 'Write `leases: postgresLeases(pool)`.',
    inbox: 'An inbox cannot be a lease store. Write `inbox: …`.',
    function: 'Call the function: `leases: redisLeases(redis)`.',
  },
  pgInbox: {
    pg: ONE_CONNECTION,
    text: 'Write `pgInbox(new Pool({ connectionString }))`.',
    kysely: 'Write `kyselyInbox(db)`.',
    redis: 'Redis cannot be an inbox. Write `redisLeases(redis)`, and give it as `leases`.',
  },
  kyselyInbox: {
    text: 'Write `pgInbox(new Pool({ connectionString }))`, or give a Kysely instance.',
    pg: 'Write `pgInbox(pool)`, or `kyselyInbox(new Kysely({ dialect: new PostgresDialect({ pool }) }))`.',
    redis: 'Redis cannot be an inbox. Write `redisLeases(redis)`, and give it as `leases`.',
  },
  postgresLeases: {
    pg: ONE_CONNECTION,
    text: 'Write `postgresLeases(new Pool({ connectionString }))`.',
    kysely: 'Give the pool of `pg` that Kysely uses: `postgresLeases(pool)`.',
    redis: 'Write `redisLeases(redis)`.',
  },
  redisLeases: {
    text: 'Write `redisLeases(new Redis(url))`.',
    pg: 'Write `postgresLeases(pool)`.',
    kysely: 'Give the pool of `pg` that Kysely uses: `postgresLeases(pool)`.',
  },
}

/** How to write what the user meant, if that is known. Never throws. */
export function writeInstead(place: StorePlace, value: unknown): string | undefined {
  const found = kindOf(value)
  if (found === 'promise') return 'Await the promise first.'
  return found === undefined ? undefined : INSTEAD[place][found]
}

function kindOf(value: unknown): Found | undefined {
  if (typeof value === 'string' || isUrl(value)) return 'text'
  const can = (...methods: readonly string[]): boolean =>
    methods.every((method) => hasMethod(value, method))
  if (can('selectFrom', 'getExecutor')) return 'kysely'
  if (can('evalsha') || can('evalSha')) return 'redis'
  if (can('connect', 'query')) return 'pg'
  if (can('claim', 'renew')) return 'leases'
  if (can('then')) return 'promise'
  if (can('open')) return 'inbox'
  return typeof value === 'function' ? 'function' : undefined
}

function isUrl(value: unknown): boolean {
  try {
    return value instanceof URL
  } catch {
    return false
  }
}

/** Whether the value has the method. Never throws, whatever the value is. */
export function hasMethod(value: unknown, method: string): boolean {
  try {
    return typeof Reflect.get(Object(value), method) === 'function'
  } catch {
    return false
  }
}

const UNRUN =
  'The handler returned a function, a generator or a query that nobody runs, and its effects were not committed. Run ' +
  'it in the handler: `async (…, { tx }) => { await … }`.'

/**
 * The failure of a handler that returned an effect which has not happened. For handlers whose results are ignored:
 * nothing else would tell.
 */
export function unrunError(returned: unknown): Error | undefined {
  const isUnrun =
    typeof returned === 'function' || ['next', 'execute'].some((name) => hasMethod(returned, name))
  return isUnrun ? new RetryableError(UNRUN) : undefined
}

/** A client of pg has the methods of a pool, but not its options. */
const POOL = { expected: 'a pool of pg', methods: ['connect', 'query'], field: 'options' } as const
const CLIENTS: Readonly<Record<ClientPlace, ClientRule>> = {
  pgInbox: POOL,
  kyselyInbox: { expected: 'a Kysely instance', methods: ['getExecutor', 'selectFrom'] },
  postgresLeases: POOL,
}
type ClientPlace = 'pgInbox' | 'kyselyInbox' | 'postgresLeases'

interface ClientRule {
  readonly expected: string
  readonly methods: readonly string[]
  /** An object that it has besides. */
  readonly field?: string
}

/** @throws {@link ConfigurationError} that says what to write, and never shows the value. */
export function refuseOtherClient(place: ClientPlace, value: unknown): void {
  const { expected, methods, field } = CLIENTS[place]
  const isFit = methods.every((method) => hasMethod(value, method))
  if (isFit && (field === undefined || typeof Reflect.get(Object(value), field) === 'object'))
    return
  throw otherClient(place, expected, value)
}

/** The error for a client of another kind. */
export function otherClient(
  place: StorePlace,
  expected: string,
  value: unknown,
): ConfigurationError {
  const advice = writeInstead(place, value) ?? 'Give the client itself.'
  return unfit({ place, expected, advice }, value)
}

/** What an adapter calls of the client of its broker. */
export interface BrokerClient {
  /** The function that gets the client. */
  readonly place: string
  readonly expected: string
  readonly methods: readonly string[]
  /** What to write instead of another value. */
  readonly advice: string
}

/**
 * Without it a consumer would take the TypeError of each call for a broker that is down, and try for ever.
 *
 * @throws {@link ConfigurationError} that says what to write, and never shows the value.
 */
export function refuseUnfitClient(client: BrokerClient, value: unknown): void {
  if (client.methods.every((method) => hasMethod(value, method))) return
  throw unfit(client, value)
}

function unfit(
  { place, expected, advice }: Omit<BrokerClient, 'methods'>,
  value: unknown,
): ConfigurationError {
  const got = value === null ? 'null' : typeof value
  return new ConfigurationError(`Expected ${place} to get ${expected}, got ${got}. ${advice}`)
}
