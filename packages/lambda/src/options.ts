import {
  type GuardSettings,
  type KnownNames,
  rangeProblems,
  refuseProblems,
  refuseUnknownNames,
} from '@onceward/core/adapter'

/** What every wrapper of this package takes. */
export interface LambdaOptions {
  /**
   * The end of an invocation that handlers cannot use, milliseconds, 100–60 000: their deadline is what
   * `getRemainingTimeInMillis()` says, less this. In it, runs that were cut off are rolled back and recorded, and the
   * answer is sent.
   *
   * @defaultValue 1 000, or half of what the invocation has if that is less
   */
  readonly marginMs?: number | undefined
}

/** How a wrapper reports to Lambda that only some messages of a batch failed. */
export interface PartialResponseOptions {
  /**
   * True: the answer lists the messages that are not done. The event source mapping must have `ReportBatchItemFailures`
   * among its `FunctionResponseTypes`: without it Lambda ignores the list, and those messages are LOST.
   * False: the function throws if any message is not done, and the whole batch comes again.
   */
  readonly partialResponses?: boolean | undefined
}

/** A message that should stay hidden until its event is due. */
export interface VisibilityChange {
  readonly queueUrl: string
  readonly receiptHandle: string
  /** Milliseconds from now. SQS takes seconds. */
  readonly visibilityMs: number
}

export interface LambdaSqsOptions extends LambdaOptions, PartialResponseOptions {
  /**
   * `'redrive'`: dead messages are reported as failures, and the queue's own redrive policy moves them. If omitted, they
   * are only in the table `failed_events` and count as done. Required without an inbox.
   */
  readonly deadLetter?: 'redrive' | undefined
  /**
   * Called for each message that is not due before a certain time, for example to send a ChangeMessageVisibility. If
   * omitted, or if it fails, the message returns after the queue's visibility timeout.
   */
  readonly changeVisibility?: ((change: VisibilityChange) => unknown) | undefined
}

/** For the event sources that have an on-failure destination of their own. */
export interface DestinationOptions {
  /**
   * `'destination'`: dead messages are reported as failures, so that Lambda moves them to its on-failure destination when
   * its retries are used up. If omitted, they are only in the table `failed_events` and count as done. Required without
   * an inbox.
   */
  readonly deadLetter?: 'destination' | undefined
}

export interface LambdaKafkaOptions
  extends LambdaOptions,
    PartialResponseOptions,
    DestinationOptions {}
export interface LambdaSnsOptions extends LambdaOptions, DestinationOptions {}
export interface LambdaEventBridgeOptions extends LambdaOptions, DestinationOptions {}
export interface LambdaStreamOptions
  extends LambdaOptions,
    PartialResponseOptions,
    DestinationOptions {}

/** Every default of this package, in milliseconds where the name says so. */
export const DEFAULTS: Readonly<Record<'marginMs', number>> = Object.freeze({ marginMs: 1_000 })

/** Options after defaults and checks. */
export interface Settings {
  /** Undefined: the default, which depends on the time of the invocation. */
  readonly marginMs: number | undefined
  /** Dead messages are not done: the event source moves them. */
  readonly isDeadLetterMoved: boolean
}

/** Every option of the wrappers of event sources. */
type AnyOptions = Omit<LambdaSqsOptions, 'deadLetter'> & {
  readonly deadLetter?: 'redrive' | 'destination' | undefined
}

/** The functions of this package, as their users write them. */
export type Wrapper =
  | 'lambdaSqs'
  | 'lambdaKafka'
  | 'lambdaSns'
  | 'lambdaEventBridge'
  | 'lambdaKinesis'
  | 'lambdaDynamoDbStream'

const SQS: KnownNames<LambdaSqsOptions> = {
  marginMs: true,
  partialResponses: true,
  deadLetter: true,
  changeVisibility: true,
}
const KAFKA: KnownNames<LambdaKafkaOptions & LambdaStreamOptions> = {
  marginMs: true,
  partialResponses: true,
  deadLetter: true,
}
const ASYNC: KnownNames<LambdaSnsOptions & LambdaEventBridgeOptions> = {
  marginMs: true,
  deadLetter: true,
}

/** The names of each wrapper, and what its `deadLetter` may be. */
const WRAPPERS: Readonly<Record<Wrapper, readonly [names: object, place: string]>> = {
  lambdaSqs: [SQS, 'redrive'],
  lambdaKafka: [KAFKA, 'destination'],
  lambdaSns: [ASYNC, 'destination'],
  lambdaEventBridge: [ASYNC, 'destination'],
  lambdaKinesis: [KAFKA, 'destination'],
  lambdaDynamoDbStream: [KAFKA, 'destination'],
}

/** @throws {@link ConfigurationError} */
export function resolveMargin(options: LambdaOptions): number | undefined {
  refuseUnknownNames('lambdaHttp', options, { marginMs: true })
  refuseProblems(marginProblems(options.marginMs))
  return options.marginMs
}

const marginProblems = (marginMs: unknown): readonly string[] =>
  rangeProblems('marginMs', marginMs, [100, 60_000])

/** @throws {@link ConfigurationError} with every problem at once. */
export function resolveSettings(
  wrapper: Wrapper,
  options: AnyOptions,
  guard: GuardSettings,
): Settings {
  const [names, place] = WRAPPERS[wrapper]
  refuseUnknownNames(wrapper, options, names as KnownNames<AnyOptions>)
  refuseProblems(problemsOf(options, guard, place))
  const { deadLetter, marginMs } = options
  return { marginMs, isDeadLetterMoved: deadLetter !== undefined }
}

function problemsOf(options: AnyOptions, guard: GuardSettings, place: string): readonly string[] {
  const { changeVisibility, deadLetter, marginMs, partialResponses } = options
  const problems: readonly (readonly [boolean, string])[] = [
    [
      deadLetter !== undefined && deadLetter !== place,
      `Expected \`deadLetter\` to be '${place}' or left out, got ${typeof deadLetter}.`,
    ],
    [
      deadLetter === undefined && !guard.hasInbox,
      `Expected \`deadLetter\` to be '${place}', got undefined: without an inbox there is no other place for a dead message.`,
    ],
    [
      !['undefined', 'boolean'].includes(typeof partialResponses),
      `Expected \`partialResponses\` to be true or false, got ${typeof partialResponses}.`,
    ],
    [
      !['undefined', 'function'].includes(typeof changeVisibility),
      `Expected \`changeVisibility\` to be a function, got ${typeof changeVisibility}.`,
    ],
  ]
  const broken = problems.filter(([isBroken]) => isBroken).map(([, problem]) => problem)
  return [...broken, ...marginProblems(marginMs)]
}
