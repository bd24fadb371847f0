import { type Command, Option } from 'commander'
import type { DeadLetterFilter } from '../data/dead-letters.ts'
import { instantMs, notEmpty, wholeNumber } from './command.ts'

const REASONS = [
  ...['fatal', 'attempts-spent', 'no-verdict', 'invalid-payload', 'fingerprint-mismatch'],
  ...['missing-event-key', 'unknown-type', 'takeover', 'late-statement'],
]

export interface FilterFlags {
  readonly consumer?: string
  readonly reason?: string
  readonly kind?: 'event' | 'refused'
  readonly since?: string
  readonly until?: string
  readonly search?: string
  readonly limit?: string
}

export function withFilters(made: Command): Command {
  return made
    .option('--consumer <name>', 'of this consumer')
    .addOption(new Option('--reason <reason>', 'with this reason').choices(REASONS))
    .addOption(
      new Option('--kind <kind>', 'buried events, or messages that never became one').choices([
        'event',
        'refused',
      ]),
    )
    .option('--since <time>', 'last failed at this time or later: 2026-11-22T20:00:00Z, or 2h')
    .option('--until <time>', 'last failed before this time')
    .option('--search <text>', 'with this text in the key or the error')
    .option('--limit <count>', 'at most so many, the oldest first')
}

export function filterOf(flags: FilterFlags): DeadLetterFilter {
  const { consumer, kind, limit, reason, search, since, until } = flags
  return {
    ...{ kind, reason },
    consumer: notEmpty('--consumer', consumer),
    search: notEmpty('--search', search),
    sinceMs: since === undefined ? undefined : instantMs('--since', since),
    untilMs: until === undefined ? undefined : instantMs('--until', until),
    limit: limit === undefined ? undefined : wholeNumber('--limit', limit, 1),
  }
}

/** Whether the filter selects by anything but a number. */
export const says = (filter: DeadLetterFilter): boolean =>
  Object.entries(filter).some(([name, value]) => name !== 'limit' && value !== undefined)
