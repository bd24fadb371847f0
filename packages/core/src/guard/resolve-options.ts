import { processAloneLock } from '../concurrency/alone-lock.ts'
import { systemRuntime } from '../concurrency/system-runtime.ts'
import { PauseValve } from '../concurrency/valve.ts'
import { fingerprintRuleOf } from '../identity/fingerprint.ts'
import { type EnvelopeTraits, traitsOf } from '../messages/envelope-traits.ts'
import {
  cloudEventKey,
  eventBridgeKey,
  idempotencyKeyHeader,
  recordKey,
  snsKey,
} from '../messages/resolvers.ts'
import { ConfigurationError } from '../model/errors.ts'
import type { GuardSettings } from '../model/guard-port.ts'
import { type Logger, safeLogger } from '../model/logger.ts'
import type { GuardOptions } from '../options/options.ts'
import { inHandPerSlot, type ResolvedOptions } from '../options/resolved-options.ts'
import { mostOf } from '../options/routes.ts'
import { brokenRules } from '../options/rules.ts'
import { OPTION_RULES, withDefaults } from '../options/table.ts'
import { FirstRefusals } from '../receive/first-refusals.ts'
import { duplicatesLog } from '../settlement/duplicates-line.ts'
import { consoleLogger } from '../support/default-logger.ts'
import { routeProblems, routesOf, routesReadByUser } from './resolve-routes.ts'

/** One for the process, because they share its terminal. */
export const defaultLogger: Logger = consoleLogger(systemRuntime)

const DEFAULT_KEYS = [
  cloudEventKey(),
  idempotencyKeyHeader(),
  snsKey(),
  eventBridgeKey(),
  recordKey(),
]

/**
 * Checks the options of a guard and applies the defaults, once.
 *
 * @throws {@link ConfigurationError} naming every problem, not only the first one.
 */
export function resolveOptions<Payload, Tx, Decoded>(
  options: GuardOptions<Payload, Tx, Decoded>,
  caller = 'createGuard',
): ResolvedOptions {
  assertObject(options)
  const problems = [
    ...brokenRules(caller, OPTION_RULES, options),
    ...impossibleTogether(options, caller),
    ...routeProblems(caller, options),
    ...replacedPromise(),
  ]
  if (problems.length > 0) throw new ConfigurationError(problems.join('\n'))
  // Each user function receives values that other functions of the same user made. No other code links these types.
  const given = options as unknown as GuardOptions<unknown, unknown>
  const traits = traitsOf(given.decode)
  const ofEnvelope = traits.eventKey === undefined ? [] : [traits.eventKey]
  const { eventKey = [...ofEnvelope, ...DEFAULT_KEYS] } = given
  const defaulted = withDefaults(given)
  const logger = safeLogger(given.logger ?? defaultLogger)
  const logKeys = given.logKeys === true
  const runtime = given.runtime ?? { ...systemRuntime, alone: processAloneLock(logger) }
  const valve = new PauseValve({ consumer: given.consumer, logger, runtime })
  const resolved: ResolvedOptions = {
    ...given,
    ...defaulted,
    inbox: given.inbox,
    leases: given.leases ?? given.dedup?.asLeases(),
    skip: skipOf(given, traits),
    eventKey: typeof eventKey === 'function' ? [eventKey] : [...eventKey],
    eventKeyChosen: given.eventKey !== undefined,
    orderingKey: given.orderingKey ?? (({ orderingKey }) => orderingKey),
    orderingKeyChosen: given.orderingKey !== undefined,
    readsByUser: READERS.some((name) => isOfUser(given[name])) || routesReadByUser(options),
    fingerprintRule: fingerprintRuleOf(defaulted.fingerprint, given.decode),
    concurrencyChosen: given.concurrency !== undefined,
    // Nothing of an approximate dedup says that an earlier attempt had its effect.
    onTakeover: given.dedup === undefined ? given.onTakeover : 'retry',
    logger,
    logKeys,
    valve,
    firstRefusals: new FirstRefusals({ consumer: given.consumer, logger, valve }),
    duplicates: duplicatesLog({ consumer: given.consumer, logger, logKeys, runtime }),
    handlerLogger: given.logger ?? defaultLogger,
    reportOnce: reportsOnce(logger),
    runtime,
  }
  return Object.freeze({ ...resolved, routes: routesOf(options, resolved) })
}

/** What an envelope skips is no event, whatever the user skips besides. */
function skipOf(
  { skip }: Pick<GuardOptions<unknown, unknown>, 'skip'>,
  { skip: isOfNoEvent }: EnvelopeTraits,
): ResolvedOptions['skip'] {
  if (isOfNoEvent === undefined || skip === undefined) return skip ?? isOfNoEvent
  return (delivery) => isOfNoEvent(delivery) || skip(delivery)
}

/** Lines of one message. A map whose names are data has a path for each of them. */
const MOST_REPORTED = 100

/** A mistake in the user's code shows at every event. One line reports it. Messages are few; what they are about is not. */
function reportsOnce(logger: Logger): ResolvedOptions['reportOnce'] {
  const reported = new Map<string, Set<string>>()
  return (level, fields, message, of = '') => {
    const about = reported.get(message) ?? new Set()
    if (about.has(of) || about.size === MOST_REPORTED) return
    reported.set(message, about.add(of))
    logger[level](fields, message)
  }
}

/** The options by which the user's code reads a message before its event is known. */
const READERS = [
  'decode',
  'schema',
  'skip',
  'split',
  'eventKey',
  'tenant',
  'orderingKey',
  'fingerprint',
] as const

/** `'body'` and `'none'` are not functions. */
const isOfUser = (value: unknown): boolean => value !== undefined && typeof value !== 'string'

function assertObject(options: unknown): asserts options is object {
  if (typeof options === 'object' && options !== null) return
  const got = options === null ? 'null' : typeof options
  throw new ConfigurationError(`Expected an object of options first, got ${got}.`)
}

/**
 * Promises are recognized by their class, because reading `then` of each answer costs more. So the promise of
 * an async function must be of the global class.
 */
function replacedPromise(): readonly string[] {
  const isGlobal = (async () => undefined)() instanceof Promise
  if (isGlobal) return []
  return [
    'Expected the `Promise` of Node, got one that something has put in its place, as zone.js does: the promises of async functions are not its instances. Run consumers in a process that does not load it.',
  ]
}

/** Options that are valid alone but not together. */
function impossibleTogether(options: object, caller: string): readonly string[] {
  const { dedup, groupConcurrency, inbox, leases, onTakeover, onStoreDown, transaction } =
    options as Partial<Readonly<Record<string, unknown>>>
  const problems: readonly (readonly [boolean, string])[] = [
    [
      caller === 'createBatchGuard' && transaction === 'each',
      "Expected no `transaction: 'each'` for `createBatchGuard`: its handler gets all events of one transaction. Leave it out, or use `createGuard`.",
    ],
    [
      dedup !== undefined && (inbox !== undefined || leases !== undefined),
      'Expected no `dedup` beside an `inbox` or `leases`: it may take a new event for a done one, and that event would be lost. Use it for telemetry alone, or leave it out.',
    ],
    [
      dedup !== undefined && onTakeover !== undefined,
      'Expected no `onTakeover` beside `dedup`: it keeps no owners. Leave it out.',
    ],
    [
      inbox === undefined && leases === undefined && dedup === undefined,
      'Expected `inbox` or `leases`, got neither: no store could detect duplicates. Give `inbox: pgInbox(pool)`.',
    ],
    [
      inbox === undefined && leases !== undefined && onTakeover === undefined,
      "Expected `onTakeover` beside `leases` without an `inbox`, got nothing: after a crash the effect may have happened. Give 'retry', 'dead-letter' or a function that looks it up.",
    ],
    [
      groupConcurrency !== undefined && (caller === 'createBatchGuard' || transaction === 'batch'),
      "Expected no `groupConcurrency` beside shared transactions: their handlers run one after the other. Use `transaction: 'each'`, or leave it out.",
    ],
    [
      inbox === undefined && transaction !== undefined,
      'Expected no `transaction` without an `inbox`: there is no transaction to share. Give an `inbox` or leave it out.',
    ],
    [
      inbox !== undefined && onTakeover !== undefined,
      'Expected no `onTakeover` beside an `inbox`: the row decides whether the effect happened. Leave it out.',
    ],
    [
      inbox !== undefined && onStoreDown !== undefined,
      'Expected no `onStoreDown` beside an `inbox`: without its transaction the handler cannot run. Leave it out.',
    ],
  ]
  return problems.filter(([isBroken]) => isBroken).map(([, problem]) => problem)
}

/** The settings that adapters need, of options with defaults. */
export function settingsOf(options: ResolvedOptions): GuardSettings {
  const unfit = (['afterCommit', 'split'] as const).filter((name) => options[name] !== undefined)
  return {
    consumer: options.consumer,
    concurrency: options.concurrency,
    inHand: options.concurrency * inHandPerSlot(options),
    ...(options.groupConcurrency === undefined ? {} : { waitsInHand: true }),
    leaseMs: options.leaseMs,
    deadlineMs: mostOf(options, ({ deadlineMs }) => deadlineMs),
    dedupWindowMs: options.dedupWindowMs,
    maxAttempts: mostOf(options, ({ retry }) => retry.attempts),
    retryMaxMs: mostOf(options, ({ retry }) => retry.maxMs),
    transaction: options.transaction,
    hasInbox: options.inbox !== undefined,
    hasLeases: options.leases !== undefined,
    unfitForOffsets: unfit.length === 0 ? undefined : unfit,
    lanesAreUsers: options.orderingKeyChosen,
  }
}
