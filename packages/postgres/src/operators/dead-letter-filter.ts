import { types } from 'node:util'
import { ConfigurationError, type DeadLetterReason } from '@onceward/core'
import { type KnownNames, refuseUnknownNames, shown } from '@onceward/core/adapter'

/** Selects dead letters; an omitted field matches all. */
export interface DeadLetterFilter {
  readonly consumer?: string | undefined
  readonly reason?: DeadLetterReason | undefined
  /** Buried events, or messages that were refused before they were an event. */
  readonly kind?: 'event' | 'refused' | undefined
  /** Last failed at this instant or later. */
  readonly since?: Date | undefined
  /** Last failed before this instant. */
  readonly until?: Date | undefined
  /** At most this many, the oldest first. */
  readonly limit?: number | undefined
}

/** All dead letters of all consumers. Must be given explicitly, because a replay or a discard cannot be undone. */
export interface AllDeadLetters {
  readonly all: true
  /** At most this many, the oldest first. */
  readonly limit?: number | undefined
}

/** What `replay` and `discard` act on: one dead letter by its id, those that match a filter, or all. */
export type DeadLetterTarget = string | DeadLetterFilter | AllDeadLetters

type Field = keyof DeadLetterFilter

const FIELDS: KnownNames<DeadLetterFilter> = {
  ...{ consumer: true, reason: true, kind: true, since: true, until: true, limit: true },
}
const REASONS: Readonly<Record<DeadLetterReason, true>> = {
  ...{ fatal: true, 'attempts-spent': true, 'no-verdict': true, 'invalid-payload': true },
  ...{
    'fingerprint-mismatch': true,
    'missing-event-key': true,
    'unknown-type': true,
    takeover: true,
    'late-statement': true,
  },
}
/** The fields that select dead letters; `limit` does not. */
const NARROWING: readonly Field[] = ['consumer', 'reason', 'kind', 'since', 'until']

interface FieldRule {
  readonly expected: string
  readonly accepts: (value: unknown) => boolean
}

const aDate: FieldRule = {
  expected: 'a valid Date',
  accepts: (value) => types.isDate(value) && !Number.isNaN(value.getTime()),
}

const oneOf = (values: readonly unknown[]): FieldRule => ({
  expected: `one of ${values.join(', ')}`,
  accepts: (value) => values.includes(value),
})

const RULES: Readonly<Record<Field, FieldRule>> = {
  consumer: {
    expected: 'the name of a consumer',
    // PostgreSQL refuses a NUL.
    accepts: (value) => typeof value === 'string' && value !== '' && !value.includes('\0'),
  },
  reason: oneOf(Object.keys(REASONS)),
  kind: oneOf(['event', 'refused']),
  since: aDate,
  until: aDate,
  limit: {
    expected: 'an integer from 0 up',
    accepts: (value) => Number.isSafeInteger(value) && Number(value) >= 0,
  },
}

/**
 * Refuses a filter with unknown fields, or with values that no dead letter can have, because it would match other
 * dead letters than intended.
 *
 * @throws {@link ConfigurationError}
 */
export function checkFilter(caller: string, filter: DeadLetterFilter): void {
  refuseUnknownNames(caller, filter, FIELDS)
  for (const [name, { expected, accepts }] of Object.entries(RULES)) {
    const value: unknown = filter[name as Field]
    if (value === undefined || accepts(value)) continue
    const got = typeof value === 'string' ? `"${shown(value)}"` : describe(value)
    throw new ConfigurationError(`${caller}: expected \`${name}\` to be ${expected}, got ${got}.`)
  }
}

function describe(value: unknown): string {
  if (typeof value === 'number') return String(value)
  return value === null ? 'null' : `a value of type ${typeof value}`
}

/**
 * The filter of a target. Refuses an empty one, such as `{}` or `{ consumer: undefined }`, because a variable
 * that happens to be undefined must not take the dead letters of every consumer.
 *
 * @throws {@link ConfigurationError}
 */
export function filterOf(
  caller: string,
  target: DeadLetterFilter | AllDeadLetters,
): DeadLetterFilter {
  if (typeof target === 'object' && target !== null && 'all' in target) {
    const { all, ...rest } = target
    refuseUnknownNames<Omit<AllDeadLetters, 'all'>>(`${caller} beside \`all\``, rest, {
      limit: true,
    })
    checkFilter(caller, rest)
    if (all === true) return rest
    throw new ConfigurationError(`${caller}: expected \`all\` to be true or left out.`)
  }
  checkFilter(caller, target)
  if (Object.hasOwn(target, 'consumer') && target.consumer === undefined) {
    throw new ConfigurationError(
      `${caller}: \`consumer\` is given but undefined. ${remedyOf(caller)}`,
    )
  }
  if (NARROWING.some((name) => target[name] !== undefined)) return target
  throw new ConfigurationError(
    `${caller} expected a filter that says something. ${remedyOf(caller)}`,
  )
}

const remedyOf = (caller: string): string =>
  `Give \`{ consumer: 'billing' }\`, an id, or \`{ all: true }\` to ${caller.slice(caller.lastIndexOf('.') + 1)} the dead letters of all consumers.`
