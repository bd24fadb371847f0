import type { ConsumeOptions, RunOptions } from '@onceward/core'
import {
  CONSUME_NAMES,
  type GuardSettings,
  type KnownNames,
  quoted,
  RUN_DEFAULTS,
  RUN_NAMES,
  type RunSettings,
  refuseProblems,
  refuseUnknownOptions,
  resolveRunOptions,
  runOptionProblems,
} from '@onceward/core/adapter'

/** Where dead messages go. One of the two is enough. */
export interface NatsDeadLetter {
  /**
   * The subject to which they are published. A stream must take it.
   *
   * @defaultValue the first subject of `stream`; the subject of the message is in the place of a `>` at its end
   */
  readonly subject?: string | undefined
  /** The stream that must take them: any other refuses them. */
  readonly stream?: string | undefined
}

export interface NatsOptions {
  /** Name of the stream. */
  readonly stream: string
  /**
   * Name of the pull consumer, with explicit acks. It must exist.
   *
   * @defaultValue the guard's `consumer`
   */
  readonly consumer?: string | undefined
  /**
   * Where dead messages go: they are published with headers that give the reason, and then terminated here. If omitted,
   * they are only in the table `failed_events`, and the message is terminated. Required without an inbox.
   */
  readonly deadLetter?: NatsDeadLetter | undefined
  /**
   * The part of the subject that is the ordering key: `true` for all of it, or the number of a token, from 1. Messages with
   * the same key run one at a time in each process, in their order. One that is deferred does not hold back later ones.
   */
  readonly orderingSubject?: true | number | undefined
  /** The header that is the ordering key, in any case. Not together with `orderingSubject`. */
  readonly orderingHeader?: string | undefined
  /** The JetStream domain of the stream, if it is another one than that of the connection. */
  readonly domain?: string | undefined
}

export interface ConsumeNatsOptions extends ConsumeOptions, NatsOptions {}

/** `batch.lingerMs` has no effect here: your own fetch decides which messages come together. */
export interface WrapNatsOptions extends RunOptions, NatsOptions {}

/** Every default of this package, in milliseconds where the name says so. */
export const DEFAULTS: Readonly<Record<'batchSize' | 'lingerMs' | 'drainMs', number>> = RUN_DEFAULTS

/** Options after defaults and checks. */
export interface Settings extends RunSettings {
  readonly stream: string
  readonly consumer: string
  readonly deadLetter: NatsDeadLetter | undefined
  readonly orderingSubject: true | number | undefined
  /** In lower case. */
  readonly orderingHeader: string | undefined
}

const OWN_NAMES: KnownNames<NatsOptions> = {
  stream: true,
  consumer: true,
  deadLetter: true,
  orderingSubject: true,
  orderingHeader: true,
  domain: true,
}
const WRAP_NAMES: KnownNames<WrapNatsOptions> = { ...RUN_NAMES, ...OWN_NAMES }
const CONSUMER_NAMES: KnownNames<ConsumeNatsOptions> = { ...CONSUME_NAMES, ...OWN_NAMES }
const TARGET_NAMES = ['subject', 'stream']

/** @throws {@link ConfigurationError} for names that `consumeNats` does not have. */
export function checkConsumeNames(options: ConsumeNatsOptions): void {
  refuseUnknownOptions('consumeNats', options, CONSUMER_NAMES, TARGET_NAMES)
}

/** @throws {@link ConfigurationError} for names that `wrapNats` does not have. */
export function checkWrapNames(options: WrapNatsOptions): void {
  refuseUnknownOptions('wrapNats', options, WRAP_NAMES, TARGET_NAMES)
}

/** @throws {@link ConfigurationError} with every problem at once. */
export function resolveSettings(options: ConsumeNatsOptions, guard: GuardSettings): Settings {
  const consumer = options.consumer ?? guard.consumer
  refuseProblems(problemsOf({ ...options, consumer }, guard))
  const { stream, deadLetter, orderingSubject, orderingHeader } = options
  return {
    ...{ stream, consumer, deadLetter, orderingSubject },
    orderingHeader: orderingHeader?.toLowerCase(),
    ...resolveRunOptions(options, guard),
  }
}

function problemsOf(options: ConsumeNatsOptions, guard: GuardSettings): string[] {
  const { stream, consumer, orderingSubject, orderingHeader, domain } = options
  return [
    ...nameProblems('stream', stream ?? ''),
    ...nameProblems('consumer', consumer),
    ...nameProblems('domain', domain),
    ...orderingProblems(orderingSubject, orderingHeader),
    ...deadLetterProblems(options, guard),
    ...runOptionProblems(options),
  ]
}

/** A name is a token of the subjects of the API. */
function nameProblems(option: string, value: unknown): string[] {
  if (value === undefined || (typeof value === 'string' && /^[^\s.*>/\\]+$/.test(value))) return []
  return [
    `Expected \`${option}\` to be a name without white space, dots, wildcards and slashes, got ${quoted(value)}.`,
  ]
}

function orderingProblems(subject: unknown, header: unknown): string[] {
  const isToken = subject === true || (Number.isInteger(subject) && Number(subject) > 0)
  return [
    ...(subject === undefined || isToken
      ? []
      : [
          `Expected \`orderingSubject\` to be true or the number of a token, from 1, got ${quoted(subject)}.`,
        ]),
    ...(header === undefined || (typeof header === 'string' && header !== '')
      ? []
      : [`Expected \`orderingHeader\` to be the name of a header, got ${quoted(header)}.`]),
    ...(subject === undefined || header === undefined
      ? []
      : ['Expected one of `orderingSubject` and `orderingHeader`, got both.']),
  ]
}

/** Whether messages can be published to it: no wildcards, no empty tokens. */
export const isSubject = (value: unknown): value is string =>
  typeof value === 'string' && /^[^\s.*>]+(\.[^\s.*>]+)*$/.test(value)

function deadLetterProblems(options: ConsumeNatsOptions, guard: GuardSettings): string[] {
  const { deadLetter, stream: source }: { readonly deadLetter?: unknown; readonly stream: string } =
    options
  if (deadLetter === undefined) {
    if (guard.hasInbox) return []
    return [
      'Expected `deadLetter` to be `{ subject }` or `{ stream }`, got undefined: without an inbox there is no other place ' +
        'for a dead message.',
    ]
  }
  if (typeof deadLetter !== 'object' || deadLetter === null) {
    return [
      `Expected \`deadLetter\` to be \`{ subject }\` or \`{ stream }\`, got ${quoted(deadLetter)}.`,
    ]
  }
  const { subject, stream } = deadLetter as NatsDeadLetter
  if (subject === undefined && stream === undefined) {
    return ['Expected `deadLetter` to have a `subject` or a `stream`, got neither.']
  }
  return [
    ...nameProblems('deadLetter.stream', stream),
    ...(subject === undefined || isSubject(subject)
      ? []
      : [
          `Expected \`deadLetter.subject\` to be a subject without wildcards, got ${quoted(subject)}.`,
        ]),
    ...(subject === undefined && stream === source
      ? [
          `Expected \`deadLetter.stream\` to be another stream than \`stream\`, got \`${source}\` for both: a dead message ` +
            'would come back again and again.',
        ]
      : []),
  ]
}
