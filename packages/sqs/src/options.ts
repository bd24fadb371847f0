import type { ConsumeOptions, RunOptions } from '@onceward/core'
import {
  CONSUME_NAMES,
  type GuardSettings,
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
} from '@onceward/core/adapter'

export interface SqsOptions {
  readonly queueUrl: string
  /**
   * Where dead messages go. A queue: they are sent there with headers that give the reason, then deleted here.
   * `'redrive'`: they are left to the queue's own redrive policy. If omitted, they are only in the table
   * `failed_events`, and the message is deleted. Required without an inbox.
   */
  readonly deadLetter?: { readonly queueUrl: string } | 'redrive' | undefined
  /**
   * How long SQS hides a message from others after each receive and each renewal, milliseconds, 1 000–43 200 000.
   * It is renewed until the message is settled, so it bounds how soon the message of a dead process returns, not
   * how long a handler may take.
   *
   * @defaultValue the guard's `leaseMs` and a tenth more, at least a second, so that a lease is free when the message returns
   */
  readonly visibilityMs?: number | undefined
}

export interface ConsumeSqsOptions extends ConsumeOptions, SqsOptions {
  /**
   * How long a receive waits for a message, milliseconds, 0–20 000. Shorter costs more requests.
   *
   * @defaultValue 20 000
   */
  readonly longPollMs?: number | undefined
}

/** `batch.lingerMs` has no effect here: your own receive decides which messages come together. */
export interface WrapSqsOptions extends RunOptions, SqsOptions {}

/** Every default of this package, in milliseconds where the name says so. */
export const DEFAULTS: Readonly<
  Record<'batchSize' | 'lingerMs' | 'longPollMs' | 'drainMs', number>
> = Object.freeze({ ...RUN_DEFAULTS, longPollMs: 20_000 })

/** SQS: 12 hours, counted from the receive. */
export const LONGEST_VISIBILITY_MS = 43_200_000

/**
 * What your own ReceiveMessage must request. Without it SQS sends neither the receive count nor the group of a
 * message, nor the attributes that identify its event.
 */
export const receiveAttributes: {
  MessageSystemAttributeNames: ['All']
  MessageAttributeNames: ['All']
} = { MessageSystemAttributeNames: ['All'], MessageAttributeNames: ['All'] }

/** Options after defaults and checks. */
export interface Settings extends RunSettings {
  readonly queueUrl: string
  readonly fifo: boolean
  readonly deadLetter: { readonly queueUrl: string } | 'redrive' | undefined
  readonly visibilityMs: number
  /** Period of the visibility ticker. */
  readonly renewMs: number
  readonly longPollMs: number
}

/** How much earlier than the visibility timeout a lease should end, because clocks drift and calls take time. */
export const marginMs = (leaseMs: number): number => Math.max(1_000, Math.ceil(leaseMs / 10))

const OWN_NAMES: KnownNames<SqsOptions> = {
  queueUrl: true,
  deadLetter: true,
  visibilityMs: true,
}
const WRAP_NAMES: KnownNames<WrapSqsOptions> = { ...RUN_NAMES, ...OWN_NAMES }
const CONSUMER_NAMES: KnownNames<ConsumeSqsOptions> = {
  ...CONSUME_NAMES,
  ...OWN_NAMES,
  longPollMs: true,
}
const TARGET_NAMES = ['queueUrl']

/** @throws {@link ConfigurationError} for names that `consumeSqs` does not have. */
export function checkConsumeNames(options: ConsumeSqsOptions): void {
  refuseUnknownOptions('consumeSqs', options, CONSUMER_NAMES, TARGET_NAMES)
}

/** @throws {@link ConfigurationError} for names that `wrapSqs` does not have. */
export function checkWrapNames(options: WrapSqsOptions): void {
  refuseUnknownOptions('wrapSqs', options, WRAP_NAMES, TARGET_NAMES)
}

/** @throws {@link ConfigurationError} with every problem at once. */
export function resolveSettings(options: ConsumeSqsOptions, guard: GuardSettings): Settings {
  refuseProblems(problemsOf(options, guard))
  const { queueUrl, deadLetter, longPollMs } = options
  const visibilityMs =
    Math.ceil((options.visibilityMs ?? guard.leaseMs + marginMs(guard.leaseMs)) / 1_000) * 1_000
  return {
    queueUrl,
    fifo: isFifo(queueUrl),
    deadLetter,
    visibilityMs: Math.min(visibilityMs, LONGEST_VISIBILITY_MS),
    renewMs: Math.floor(Math.min(guard.leaseMs, visibilityMs) / 3),
    ...resolveRunOptions(options, guard),
    longPollMs: longPollMs ?? DEFAULTS.longPollMs,
  }
}

export const isFifo = (queueUrl: string): boolean => queueUrl.endsWith('.fifo')

function problemsOf(options: ConsumeSqsOptions, guard: GuardSettings): string[] {
  return [
    ...urlProblems('queueUrl', options.queueUrl),
    ...deadLetterProblems(options, guard),
    ...rangeProblems('visibilityMs', options.visibilityMs, [1_000, LONGEST_VISIBILITY_MS]),
    ...rangeProblems('longPollMs', options.longPollMs, [0, 20_000]),
    ...runOptionProblems(options),
    ...(guard.deadlineMs >= LONGEST_VISIBILITY_MS
      ? [
          `Expected the guard's \`deadlineMs\` to be below ${LONGEST_VISIBILITY_MS}, got ` +
            `\`${guard.deadlineMs}\` (number): SQS hides a message for at most 12 hours after a receive.`,
        ]
      : []),
  ]
}

const NO_URL = { protocol: '', username: '', password: '' }

function urlProblems(name: string, value: unknown): string[] {
  const { protocol, username, password } =
    typeof value === 'string' && URL.canParse(value) ? new URL(value) : NO_URL
  if (/^https?:/.test(protocol) && username === '' && password === '') return []
  return [`Expected \`${name}\` to be the URL of a queue, got ${quoted(value)}.`]
}

function deadLetterProblems(options: ConsumeSqsOptions, guard: GuardSettings): string[] {
  const { deadLetter, queueUrl } = options
  if (deadLetter === 'redrive') return []
  if (deadLetter === undefined) {
    if (guard.hasInbox) return []
    return [
      "Expected `deadLetter` to be `{ queueUrl }` or 'redrive', got undefined: without an inbox there is no " +
        'other place for a dead message.',
    ]
  }
  if (typeof deadLetter !== 'object' || deadLetter === null) {
    return [
      `Expected \`deadLetter\` to be \`{ queueUrl }\` or 'redrive', got ${quoted(deadLetter)}.`,
    ]
  }
  const problems = urlProblems('deadLetter.queueUrl', deadLetter.queueUrl)
  if (problems.length === 0 && deadLetter.queueUrl === queueUrl) {
    problems.push(
      `Expected \`deadLetter.queueUrl\` to be another queue than \`queueUrl\`, got \`${queueUrl}\` for both: a ` +
        'dead message would come back again and again.',
    )
  }
  return problems
}
