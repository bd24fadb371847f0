import { ConfigurationError, type Delivery, RetryableError, type Settlement } from '@onceward/core'
import {
  byOrderingKey,
  endsWithin,
  type Guard,
  type GuardPort,
  portOf,
  shown,
  toBatches,
} from '@onceward/core/adapter'
import { fieldsOf } from './fields.ts'
import { DEFAULTS, resolveSettings, type Settings, type Wrapper } from './options.ts'

/** What is used of the context of an invocation. */
export interface LambdaContext {
  getRemainingTimeInMillis(): number
}

/** A delivery and its settlement; undefined if that was not known in time. */
export interface Settled {
  readonly delivery: Delivery
  readonly settlement: Settlement | undefined
  /** The event source may forget the message: its outcome is stored. */
  readonly isDone: boolean
}

/** Runs the deliveries of one invocation. */
export type Invoke = (
  deliveries: readonly Delivery[],
  context: LambdaContext | undefined,
) => Promise<readonly Settled[]>

/** Most deliveries in one call of the guard. */
const BATCH_SIZE = 100
/** The last share of the time of an invocation, in which no run is started. */
const NO_START_SHARE = 0.1

/** With less time for handlers, ms, nothing is started. */
const LEAST_BUDGET_MS = 50

interface Parts {
  readonly port: GuardPort
  readonly settings: Settings
  readonly doDue: ReturnType<GuardPort['onDemand']>
  readonly sendsAgain: SendsAgain
}

/** When the event source sends again what was reported: later, or at once, and each time is one of its retries. */
export type SendsAgain = 'later' | 'at-once'

/**
 * Connects a guard with a function. All work of the guard happens inside of invocations, because Lambda freezes the
 * process between them: there are no timers, and what usually runs in the background runs at the end of an invocation.
 *
 * @throws {@link ConfigurationError}
 */
export function createInvoke(
  wrapper: Wrapper,
  guard: Guard,
  options: object,
  sendsAgain: SendsAgain = 'later',
): Invoke {
  const port = portOf(guard)
  const settings = resolveSettings(wrapper, options, port.settings)
  const parts = { port, settings, doDue: port.onDemand(), sendsAgain }
  return async (deliveries, context) => {
    const settlements: (Settlement | undefined)[] = deliveries.map(() => undefined)
    await runWithin(parts, leftMsOf(context), { deliveries, settlements })
    for (const settlement of settlements) throwIfMisconfigured(settlement)
    return deliveries.map((delivery, index) => {
      const settlement = settlements[index]
      return { delivery, settlement, isDone: isDone(settings, settlement) }
    })
  }
}

/** Lambda's longest invocation: 15 minutes. Local runtimes without a limit say more, which no timer can hold. */
const LONGEST_INVOCATION_MS = 900_000

/** What the invocation has left, ms; undefined outside of Lambda, as in a unit test. */
export function leftMsOf(context: LambdaContext | undefined): number | undefined {
  const leftMs: unknown = context?.getRemainingTimeInMillis?.()
  return Number.isFinite(leftMs) ? Math.min(leftMs as number, LONGEST_INVOCATION_MS) : undefined
}

interface Work {
  readonly deliveries: readonly Delivery[]
  /** Filled as soon as each is known. */
  readonly settlements: (Settlement | undefined)[]
}

async function runWithin(parts: Parts, leftMs: number | undefined, work: Work): Promise<void> {
  const { port, settings } = parts
  if (leftMs === undefined) return runAll(parts, work, {})
  const { runtime } = port
  const { budgetMs, marginMs } = budgetOf(port, leftMs, settings.marginMs)
  if (budgetMs === undefined) return
  const endsAtMs = runtime.monotonic() + budgetMs
  const stop = new AbortController()
  const cancelStop = runtime.setTimer(() => stop.abort(), budgetMs * (1 - NO_START_SHARE))
  const limits = { stop: stop.signal, leftMs: () => Math.max(1, endsAtMs - runtime.monotonic()) }
  const running = runAll(parts, work, limits)
  // A store that does not answer must not cost the answers that are known.
  const isOver = await endsWithin(runtime, running, budgetMs + marginMs / 2)
  cancelStop()
  if (!isOver) {
    port.logger.warn(
      { consumer: port.settings.consumer, marginMs },
      'an invocation ended before its runs: their messages come again. Check the store, or raise marginMs',
    )
  }
}

/** The time for handlers and the margin after it, ms. No budget: there is no time to run anything. */
export function budgetOf(
  port: Pick<GuardPort, 'logger' | 'settings'>,
  leftMs: number,
  given: number | undefined,
): { readonly budgetMs: number | undefined; readonly marginMs: number } {
  const marginMs = given ?? Math.min(DEFAULTS.marginMs, leftMs / 2)
  const budgetMs = leftMs - marginMs
  if (budgetMs >= LEAST_BUDGET_MS) return { budgetMs, marginMs }
  // A handler that is cut off as soon as it starts would use up the attempts of an event that never had a chance.
  port.logger.error(
    { consumer: port.settings.consumer, leftMs, marginMs },
    'an invocation has no time for handlers and runs nothing: raise the timeout of the function, or lower marginMs',
  )
  return { budgetMs: undefined, marginMs }
}

interface Limits {
  readonly stop?: AbortSignal
  readonly leftMs?: () => number
}

async function runAll(parts: Parts, work: Work, limits: Limits): Promise<void> {
  const { doDue, sendsAgain, settings } = parts
  const { deliveries, settlements } = work
  let left: readonly Numbered[] = deliveries.map((delivery, index) => ({ delivery, index }))
  await runEach(parts, left, { settlements, limits })
  await doDue({ stop: limits.stop, budgetMs: limits.leftMs?.() })
  if (sendsAgain === 'later') return
  while (await mayRunAgain(parts, work, limits.stop)) {
    left = left.filter(({ index }) => !isDone(settings, settlements[index]))
    await runEach(parts, left, { settlements, limits })
  }
}

interface Numbered {
  readonly delivery: Delivery
  readonly index: number
}

/** Messages with an order stay in one call of the guard; what the guard's user orders, only the guard knows. */
async function runEach(
  { port, settings }: Parts,
  numbered: readonly Numbered[],
  { limits, settlements }: Pick<Work, 'settlements'> & { readonly limits: Limits },
): Promise<void> {
  const { lanesAreUsers } = port.settings
  const batches = lanesAreUsers ? [numbered] : toBatches(byOrderingKey(numbered), BATCH_SIZE)
  for (const batch of batches) {
    await port.run(
      batch.map(({ delivery }) => delivery),
      {
        stop: limits.stop,
        budgetMs: limits.leftMs?.(),
        hasDeadLetterPlace: settings.isDeadLetterMoved,
        onSettlement: (at, settlement) => {
          settlements[batch[at]?.index as number] = settlement
        },
      },
    )
  }
}

/**
 * Waits until the first of the unfinished messages is due, within the time of the invocation. A message that has failed
 * in this invocation is answered then, so that a retry of the event source is an attempt. Others did not run, for example
 * because the store is down: they run in this invocation, and cost no retry.
 */
async function mayRunAgain(
  { port: { runtime }, settings }: Parts,
  { settlements }: Work,
  stop: AbortSignal | undefined,
): Promise<boolean> {
  const unfinished = settlements.filter((settlement) => !isDone(settings, settlement))
  const [first] = unfinished
  // The event source goes back to the first one. Without a limit of time there is nothing to wait for.
  if (first?.kind !== 'defer' || stop === undefined || stop.aborted) return false
  const deferred = unfinished.filter((settlement) => settlement?.kind === 'defer')
  const dueAt = Math.min(...deferred.map(({ until }) => until))
  const stopped = new Promise((resolve) => stop.addEventListener('abort', resolve, { once: true }))
  const isStopped = await endsWithin(runtime, stopped, Math.max(0, dueAt - runtime.now()))
  return !isStopped && deferred.every(({ reason }) => reason !== 'failed')
}

function isDone({ isDeadLetterMoved }: Settings, settlement: Settlement | undefined): boolean {
  if (settlement?.kind === 'dead-letter') return !isDeadLetterMoved
  return settlement?.kind === 'ack'
}

/** A database without tables must fail loudly, and not look like a slow queue. */
function throwIfMisconfigured(settlement: Settlement | undefined): void {
  if (settlement?.kind !== 'defer' || settlement.reason !== 'store-down') return
  if (settlement.error instanceof ConfigurationError) throw settlement.error
}

/** @throws {@link RetryableError} if any delivery is not done, so that Lambda sends all of them again. */
export function throwIfUnfinished(settled: readonly Settled[]): void {
  const unfinished = settled.filter(({ isDone }) => !isDone)
  const [first] = unfinished
  if (first === undefined) return
  const { settlement } = first
  throw new RetryableError(
    `${unfinished.length} of ${settled.length} messages are not done, so that Lambda must send them again. The first: ${describe(settlement)}.`,
    { cause: fieldsOf(settlement)['error'] },
  )
}

function describe(settlement: Settlement | undefined): string {
  if (settlement === undefined) return 'its outcome was not known in time'
  const { kind, reason, cause } = fieldsOf(settlement)
  return [kind, reason, cause].filter((word) => word !== undefined).join(', ')
}

/** Event sources that no function of this package reads, and what reads their messages. */
const UNREAD: Readonly<Partial<Record<string, string>>> = {
  'aws:rmq':
    'No function of @onceward/lambda reads RabbitMQ of Amazon MQ: consume its queue with consumeAmqp of @onceward/amqp.',
  'aws:mq':
    'No function of @onceward/lambda reads ActiveMQ of Amazon MQ: give each message to guard.process() yourself.',
}

/** The event source of a batch, as its event names it. */
export function eventSourceOf(event: unknown): string | undefined {
  const { eventSource, messages, rmqMessagesByQueue } = fieldsOf(event)
  if (typeof eventSource === 'string') return eventSource
  if (rmqMessagesByQueue !== undefined) return 'aws:rmq'
  return Array.isArray(messages) && messages.some(isOfActiveMq) ? 'aws:mq' : undefined
}

const isOfActiveMq = (message: unknown): boolean => 'messageID' in fieldsOf(message)

/** The error for an event that another event source sent, or that a middleware has changed. */
export function wrongEvent(
  wrapper: Wrapper | 'lambdaHttp',
  expected: string,
  event?: unknown,
): ConfigurationError {
  const source = eventSourceOf(event)
  const unread = UNREAD[source ?? '']
  const got = source === undefined ? 'another event' : `an event of \`${shown(source)}\``
  if (unread !== undefined) {
    return new ConfigurationError(`${wrapper} expected ${expected}, got ${got}. ${unread}`)
  }
  return new ConfigurationError(
    `${wrapper} expected ${expected}, got ${got}. Check the trigger of the function: each function of @onceward/lambda takes the events of one source, as Lambda hands them over. A middleware that parses records, such as @middy/event-normalizer, must not run before them.`,
  )
}

/**
 * The records of an event, or the event itself where a pipe of EventBridge sent it.
 *
 * @throws {@link ConfigurationError}
 */
export function recordsOf(wrapper: Wrapper, event: unknown): readonly unknown[] {
  const records: unknown = Array.isArray(event) ? event : fieldsOf(event)['Records']
  if (Array.isArray(records)) return records
  throw wrongEvent(wrapper, 'an event with `Records`, or the records of a pipe', event)
}
