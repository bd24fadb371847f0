import type { OptionDoc } from '../packages/core/src/options/table.ts'
import { code } from './docs-table.ts'

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
  /** Its own options, in the order of the page. */
  readonly options: Docs<string>
  /** Its defaults of the options that all adapters share. */
  readonly defaults: SharedDefaults
  /** Sentences with figures that the code decides: each file contains each text. */
  readonly told: readonly Told[]
}

export interface Told {
  readonly file: string
  readonly text: string | RegExp
}

/** Options of an adapter that are rows of its own; {@link sharedDocs} has the other ones. */
export type OwnOption<Options> = Exclude<keyof Options, 'batch' | 'drainMs' | 'signal'> & string

interface SharedDefaults {
  readonly batchSize: number
  /** None where the option has no effect. */
  readonly lingerMs?: number
  readonly drainMs: number
}

type SharedOption = 'batch.size' | 'batch.lingerMs' | 'drainMs' | 'signal'

/** The options that all adapters share, with the defaults of each of them. */
export function sharedDocs(all: Readonly<Record<string, SharedDefaults>>): Docs<SharedOption> {
  const each = (value: (defaults: SharedDefaults) => string | number): string | number => {
    const values = Object.entries(all).map(([title, defaults]) => [title, value(defaults)] as const)
    const first = values[0]?.[1] ?? ''
    return values.every(([, own]) => own === first)
      ? first
      : values.map(([title, own]) => `${title} ${code(String(own))}`).join(', ')
  }
  return {
    'batch.size': {
      type: 'integer, 1–100',
      unit: 'messages',
      default: each(({ batchSize }) => batchSize),
      meaning:
        "Most messages in one call of the guard. With `transaction: 'batch'` they share one transaction.",
    },
    'batch.lingerMs': {
      type: 'integer, 0–60000',
      unit: MS,
      default: each(({ lingerMs }) => lingerMs ?? 'no effect'),
      meaning:
        "How long to wait for a batch to fill, counted from its first message; 0 by default with `transaction: 'each'`. A fetch of Kafka returns what is there: `consumer.minBytes` makes it wait for more.",
    },
    drainMs: {
      type: `integer, 0–${LONGEST_DRAIN_MS}`,
      unit: MS,
      default: each((defaults) => defaults.drainMs),
      meaning:
        'How long running handlers may continue in a drain before their signals abort. Handlers get two seconds more after the abort: stay below the grace period of your platform (Kubernetes: 30 s).',
    },
    signal: {
      type: 'AbortSignal',
      meaning: 'Aborting it does the same as `drain()`.',
    },
  }
}
