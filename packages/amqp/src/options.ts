import type { ConsumeOptions, RunOptions } from '@onceward/core'
import {
  CONSUME_NAMES,
  type GuardSettings,
  isConnectionString,
  type KnownNames,
  quoted,
  RUN_DEFAULTS,
  RUN_NAMES,
  type RunSettings,
  rangeProblems,
  refuseProblems,
  refuseUnknownOptions,
  resolveRunOptions,
  runOptionProblems,
  shown,
  typeProblems,
} from '@onceward/core/adapter'
import type { Options } from 'amqplib'

/** Where dead messages go: straight into a queue, or through an exchange. */
export type DeadLetterTarget =
  | { readonly queue: string }
  | { readonly exchange: string; readonly routingKey: string }

export interface AmqpOptions {
  readonly queue: string
  /**
   * Where dead messages go. A queue or an exchange: published there with confirm and with headers that give the reason,
   * then acked here. `'dlx'`: rejected, so that the queue's own dead-letter exchange takes them; without one the broker
   * drops them. If omitted, they are only in the table `failed_events`. Required without an inbox.
   */
  readonly deadLetter?: DeadLetterTarget | 'dlx' | undefined
  /**
   * Milliseconds of the delay queues, one queue `<queue>.retry.<ms>` each: a message that must wait longer than
   * `holdMs` waits in the shortest one that is long enough, else again and again in the longest. 100 or more each.
   *
   * @defaultValue `[1_000, 5_000, 30_000, 120_000, 600_000, 3_600_000]`
   */
  readonly retryLevelsMs?: readonly number[] | undefined
  /**
   * Longest wait for which a message is held, unacked, instead of being published to a delay queue,
   * milliseconds, 0–60 000. At most half of the prefetch is held.
   *
   * @defaultValue 5 000
   */
  readonly holdMs?: number | undefined
  /**
   * `consumer_timeout` of the server, milliseconds: it closes the channel of a delivery that is unacked for longer. A
   * client cannot read it; the default is the server's. The guard's `deadlineMs` must be two minutes below it, and what
   * could not end by then any more is given back unstarted.
   *
   * @defaultValue 1 800 000 (30 minutes)
   * @see https://www.rabbitmq.com/docs/consumers#acknowledgement-timeout
   */
  readonly consumerTimeoutMs?: number | undefined
  /**
   * Messages that the broker hands over before the first is settled, 1–65 535. For a wrap: what you gave to
   * `channel.prefetch()`.
   *
   * @defaultValue follows the pace: as many as run at once, and half as many again while they are quick; with
   * `transaction: 'batch'` one batch, and two while they are quick. Messages that are held for a time or for an
   * earlier one are not counted, up to three times the guard's `concurrency`, at least 20, or two batches in all
   */
  readonly prefetch?: number | undefined
}

export interface ConsumeAmqpOptions extends ConsumeOptions, AmqpOptions {
  /** For the consumer itself: priority, exclusive, tag, arguments. `noAck` is refused: nothing could be settled. */
  readonly consumer?: Omit<Options.Consume, 'noAck' | 'noLocal'> | undefined
  /**
   * True when a policy gives the queue its dead-letter exchange: a client cannot see that, so a quorum queue with
   * a delivery limit would be refused.
   *
   * @defaultValue false
   */
  readonly deadLetterPolicy?: boolean | undefined
}

/** `batch.lingerMs` is counted from the first message of a batch, as in `consumeAmqp`. */
export interface WrapAmqpOptions extends RunOptions, AmqpOptions {}

/** Defaults of this package, in milliseconds where the name says so. */
export const DEFAULTS: Readonly<
  Record<'batchSize' | 'lingerMs' | 'drainMs' | 'holdMs' | 'consumerTimeoutMs', number>
> & { readonly retryLevelsMs: readonly number[] } = Object.freeze({
  ...RUN_DEFAULTS,
  lingerMs: 5,
  holdMs: 5_000,
  consumerTimeoutMs: 1_800_000,
  retryLevelsMs: Object.freeze([1_000, 5_000, 30_000, 120_000, 600_000, 3_600_000]),
})

/** The server checks its timeouts once a minute, so they fire up to a minute late. Another minute is the margin. */
export const TIMEOUT_MARGIN_MS = 120_000
/** AMQP: bytes of a short string. */
const NAME_BYTES = 255
const LONGEST_TTL_MS = 4_294_967_295
/** A message that must wait longer than the longest level goes round the broker and the store once per level. */
const LEAST_LEVEL_MS = 100
const LEAST_PREFETCH = 20
/** Of the margin, what a message may wait whose handler may take all the rest. */
const LEAST_PATIENCE_MS = 60_000

/** Options after defaults and checks. */
export interface Settings extends RunSettings {
  readonly queue: string
  readonly deadLetter: DeadLetterTarget | 'dlx' | undefined
  /** Ascending. */
  readonly levelsMs: readonly number[]
  readonly holdMs: number
  /** A delivery that is older is not started: the server would take it back before its deadline. */
  readonly oldestMs: number
  /** The most. */
  readonly prefetch: number
  /** Not to be changed with the pace. */
  readonly isPrefetchFixed: boolean
  readonly consumer: Omit<Options.Consume, 'noAck' | 'noLocal'>
  readonly deadLetterPolicy: boolean
}

const OWN_NAMES: KnownNames<AmqpOptions> = {
  queue: true,
  deadLetter: true,
  retryLevelsMs: true,
  holdMs: true,
  consumerTimeoutMs: true,
  prefetch: true,
}
const WRAP_NAMES: KnownNames<WrapAmqpOptions> = { ...RUN_NAMES, ...OWN_NAMES }
const CONSUMER_NAMES: KnownNames<ConsumeAmqpOptions> = {
  ...CONSUME_NAMES,
  ...OWN_NAMES,
  consumer: true,
  deadLetterPolicy: true,
}
/** `noAck` is refused with its own message, which says why. */
function withoutNoAck<Options extends object>(options: Options): Options {
  if (Reflect.has(Object(options), 'noAck') !== true) return options
  const { noAck: _noAck, ...rest } = options as Options & { readonly noAck: unknown }
  return rest as unknown as Options
}

const TARGET_NAMES = ['queue', 'exchange', 'routingKey']

/** @throws {@link ConfigurationError} for names that `consumeAmqp` does not have. */
export function checkConsumeNames(options: ConsumeAmqpOptions): void {
  refuseUnknownOptions('consumeAmqp', withoutNoAck(options), CONSUMER_NAMES, TARGET_NAMES)
}

/** @throws {@link ConfigurationError} for names that `wrapAmqp` does not have. */
export function checkWrapNames(options: WrapAmqpOptions): void {
  refuseUnknownOptions('wrapAmqp', withoutNoAck(options), WRAP_NAMES, TARGET_NAMES)
}

/** @throws {@link ConfigurationError} with every problem at once. */
export function resolveSettings(options: ConsumeAmqpOptions, guard: GuardSettings): Settings {
  refuseProblems(problemsOf(options, guard))
  const run = resolveRunOptions(options, guard)
  const isBatch = guard.transaction === 'batch'
  const timeoutMs = options.consumerTimeoutMs ?? DEFAULTS.consumerTimeoutMs
  const prefetch =
    options.prefetch ??
    (isBatch ? 2 * run.batchSize : Math.max(LEAST_PREFETCH, 3 * guard.concurrency))
  return {
    ...run,
    batchSize: Math.min(run.batchSize, prefetch),
    lingerMs: options.batch?.lingerMs ?? (isBatch ? DEFAULTS.lingerMs : 0),
    queue: options.queue,
    deadLetter: plainTarget(options.deadLetter),
    levelsMs: [...(options.retryLevelsMs ?? DEFAULTS.retryLevelsMs)].sort((a, b) => a - b),
    holdMs: options.holdMs ?? DEFAULTS.holdMs,
    oldestMs: Math.max(LEAST_PATIENCE_MS, timeoutMs - TIMEOUT_MARGIN_MS - guard.deadlineMs),
    prefetch,
    // Another consumer could take the place of an exclusive one that consumes again.
    isPrefetchFixed: options.prefetch !== undefined || options.consumer?.exclusive === true,
    consumer: options.consumer ?? {},
    deadLetterPolicy: options.deadLetterPolicy ?? false,
  }
}

/** The problems of a list of levels, each with its fix. */
export function levelProblems(name: string, levels: unknown): readonly string[] {
  if (!Array.isArray(levels) || levels.length === 0) {
    return [`Expected \`${name}\` to be a list of milliseconds, got ${quoted(levels)}.`]
  }
  const wrong = levels.flatMap((level) =>
    rangeProblems(name, level, [LEAST_LEVEL_MS, LONGEST_TTL_MS]),
  )
  const isTwice = new Set(levels).size < levels.length
  return isTwice ? [...wrong, `Expected \`${name}\` to name each level once.`] : wrong
}

/** The problem of a name on the wire, if it has one; `reserved` bytes are appended to it. */
export function nameProblems(name: string, value: unknown, reserved = 0): readonly string[] {
  const most = NAME_BYTES - reserved
  if (isShortText(value, most) && value !== '') return []
  return [`Expected \`${name}\` to be a name of at most ${most} bytes, got ${quoted(value)}.`]
}

const isShortText = (value: unknown, most = NAME_BYTES): boolean =>
  typeof value === 'string' && !isConnectionString(value) && Buffer.byteLength(value) <= most

function problemsOf(options: ConsumeAmqpOptions, guard: GuardSettings): readonly string[] {
  const timeoutMs = options.consumerTimeoutMs ?? DEFAULTS.consumerTimeoutMs
  return [
    ...nameProblems('queue', options.queue, '.retry.'.length + 10),
    ...deadLetterProblems(options, guard),
    ...(options.retryLevelsMs === undefined
      ? []
      : levelProblems('retryLevelsMs', options.retryLevelsMs)),
    ...rangeProblems('holdMs', options.holdMs, [0, 60_000]),
    ...rangeProblems('consumerTimeoutMs', options.consumerTimeoutMs, [
      TIMEOUT_MARGIN_MS + 1_000,
      LONGEST_TTL_MS,
    ]),
    ...rangeProblems('prefetch', options.prefetch, [1, 65_535], 'messages'),
    ...typeProblems('consumer', options.consumer, 'object'),
    ...typeProblems('deadLetterPolicy', options.deadLetterPolicy, 'boolean'),
    ...noAckProblems(options),
    ...runOptionProblems(options),
    ...(guard.deadlineMs > timeoutMs - TIMEOUT_MARGIN_MS
      ? [
          `Expected the guard's \`deadlineMs\` to be at most ${timeoutMs - TIMEOUT_MARGIN_MS}, two minutes below the ` +
            `\`consumer_timeout\` of the server, got \`${guard.deadlineMs}\` (number). Lower it, or raise the timeout ` +
            'there and in `consumerTimeoutMs` here.',
        ]
      : []),
  ]
}

/** With `noAck` the broker forgets a message when it sends it: nothing is left to settle, and a crash loses it. */
function noAckProblems(options: ConsumeAmqpOptions): readonly string[] {
  const isAsked = 'noAck' in options || Reflect.get(Object(options.consumer), 'noAck')
  return isAsked
    ? [
        'Expected no `noAck`: with it the broker forgets a message when it sends it, and a crash loses it.',
      ]
    : []
}

type Names = Readonly<Record<'queue' | 'exchange' | 'routingKey', string>>

/** The default exchange routes to the queue of that name, which can be checked as such. */
function plainTarget(deadLetter: AmqpOptions['deadLetter']): AmqpOptions['deadLetter'] {
  if (typeof deadLetter !== 'object' || deadLetter === null) return deadLetter
  const { queue, exchange, routingKey } = deadLetter as Partial<Names>
  if (exchange === undefined) return { queue } as DeadLetterTarget
  if (queue !== undefined) return deadLetter
  return (exchange === '' ? { queue: routingKey } : { exchange, routingKey }) as DeadLetterTarget
}

function deadLetterProblems(options: ConsumeAmqpOptions, guard: GuardSettings): readonly string[] {
  const { queue } = options
  const deadLetter = plainTarget(options.deadLetter)
  if (deadLetter === 'dlx') return []
  if (deadLetter === undefined) {
    if (guard.hasInbox) return []
    return [
      "Expected `deadLetter` to be `{ queue }`, `{ exchange, routingKey }` or 'dlx', got undefined: without an inbox " +
        'there is no other place for a dead message.',
    ]
  }
  if (typeof deadLetter !== 'object' || deadLetter === null) {
    return [`Expected \`deadLetter\` to be a target or 'dlx', got ${quoted(deadLetter)}.`]
  }
  if ('exchange' in deadLetter) {
    if ('queue' in deadLetter) {
      return [
        'Expected `deadLetter` to have a `queue`, or an `exchange` and a `routingKey`, got both.',
      ]
    }
    const names: readonly unknown[] = [deadLetter.exchange, deadLetter.routingKey]
    return names.every((name) => isShortText(name))
      ? []
      : [
          'Expected `deadLetter` to have an `exchange` and a `routingKey`, both strings of at most ' +
            `${NAME_BYTES} bytes.`,
        ]
  }
  if (deadLetter.queue !== queue) return nameProblems('deadLetter.queue', deadLetter.queue)
  return [
    `Expected \`deadLetter.queue\` to be another queue than \`queue\`, got \`${shown(queue)}\` for both: a dead ` +
      'message would come back again and again.',
  ]
}
