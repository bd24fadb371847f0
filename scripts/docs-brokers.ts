import type { OptionDoc } from '../packages/core/src/options/table.ts'

/** One row of a table of options. */
export type Doc = Omit<OptionDoc, 'name'>
/** A table of options, which misses none of them. */
export type Docs<Name extends string> = Readonly<Record<Name, Doc>>

export const MS = 'milliseconds'

const LONGEST_DRAIN_MS = 43_200_000

/** What the registry of brokers knows about the pages of one broker. */
export interface BrokerDocs {
  /** The broker's page, from the root of the repository. */
  readonly page: string
  /** Its table of options, in the order of the page. */
  readonly options: Docs<string>
  /** Sentences with figures that the code decides: each file contains each text. */
  readonly told: readonly Told[]
}

export interface Told {
  readonly file: string
  readonly text: string | RegExp
}

/** Options of an adapter that are rows of their own; {@link sharedDocs} has the other ones. */
export type OwnOption<Options> = Exclude<
  keyof Options,
  'batch' | 'drainMs' | 'signal' | 'startWithoutStore'
> &
  string

interface SharedDefaults {
  readonly batchSize: number
  /** None where the option has no effect: then the adapter has a row of its own. */
  readonly lingerMs?: number
  readonly drainMs: number
}

/** The options that all adapters share: their tables differ only in the broker's own rows. */
export const sharedDocs = (
  defaults: SharedDefaults,
): Docs<'batch.size' | 'batch.lingerMs' | 'drainMs' | 'signal' | 'startWithoutStore'> => ({
  'batch.size': {
    type: 'integer, 1–100',
    unit: 'messages',
    default: defaults.batchSize,
    meaning:
      "Most messages in one call of the guard. With `transaction: 'batch'` they share one transaction.",
    reason:
      'Beyond a hundred, a larger batch gains little and costs more when it must be bisected.',
  },
  'batch.lingerMs': {
    type: 'integer, 0–60000',
    unit: MS,
    default: `0 with \`transaction: 'each'\`, ${defaults.lingerMs} with \`'batch'\``,
    meaning: 'How long to wait for a batch to fill, counted from its first message.',
    reason: 'Single transactions gain nothing by waiting. Later messages do not prolong the wait.',
  },
  drainMs: {
    type: `integer, 0–${LONGEST_DRAIN_MS}`,
    unit: MS,
    default: defaults.drainMs,
    meaning: 'How long running handlers may continue in a drain before their signals abort.',
    reason:
      'Handlers get two seconds more after the abort, and both fit in the 30 s grace period of Kubernetes.',
  },
  signal: {
    type: 'AbortSignal',
    meaning: 'Aborting it does the same as `drain()`.',
    reason: 'None by default: call `drain()` yourself.',
  },
  startWithoutStore: {
    type: 'boolean',
    default: '`true`',
    meaning:
      'Whether the consumer starts while a store of its guard cannot be reached. A wrong password or a database that does not exist always fails the start.',
    reason:
      'It then waits and takes no messages, so a restart of the database ends no worker. With `false` a deployment notices.',
  },
})
