import type { Point } from './points.ts'
import type { ProveEnv } from './proof.ts'

/** What the parent gives a process that loads the user's file. */
export interface ProcessSettings {
  readonly role: 'worker' | 'author'
  /** Path of the user's file. */
  readonly file: string
  readonly env: ProveEnv
  /** A directory of this run. */
  readonly folder: string
  /** Time limits, milliseconds. */
  readonly answerMs: number
}

export const SETTINGS_VARIABLE = 'ONCEWARD_PROVE'

/** In the directory of the run: by which texts events are recognized, as `[text, event][]`. */
export const IDENTITIES_FILE = 'identities.json'

/** The blow with this number is due at the point; the first worker that reaches it takes it. */
export interface ArmedBlow {
  readonly number: number
  readonly point: Point
}

/** The file of a blow that a worker has taken. The first that creates it is the one. */
export const blowFile = (number: number): string => `blow-${number}.json`

/** Events as the wire names them. */
export interface Named {
  /** By a value of their bodies. */
  readonly events: readonly number[]
  /** By the ids that guards give them. */
  readonly ids: readonly string[]
}

/** What a worker writes before it kills or stops itself. */
export interface TakenBlow {
  readonly pid: number
  /** The event in whose transaction, or after whose COMMIT, the worker is hit. */
  readonly hit: Named
  /** Those of other transactions of this process. */
  readonly beside: Named
}

export type Question =
  | { readonly kind: 'events'; readonly count: number }
  | { readonly kind: 'setup' }
  | { readonly kind: 'count' }
  | { readonly kind: 'teardown' }

export type ToProcess =
  | { readonly kind: 'ask'; readonly id: number; readonly question: Question }
  | { readonly kind: 'arm'; readonly blow: ArmedBlow | undefined }
  | { readonly kind: 'ask-health' }
  | { readonly kind: 'drain' }

export interface EventToSend {
  readonly body: string
  readonly headers: Readonly<Record<string, string>>
}

export type FromProcess =
  /** The file is loaded; a worker consumes. */
  | { readonly kind: 'ready' }
  /** The process cannot do its work, and ends. `stage` is what it did: `load`, `start` or `consume`. */
  | { readonly kind: 'failed'; readonly stage: string; readonly text: string }
  | { readonly kind: 'answer'; readonly id: number; readonly value: unknown }
  | { readonly kind: 'refused'; readonly id: number; readonly text: string }
  | { readonly kind: 'health'; readonly inFlight: number | undefined }
  /** A promise was rejected that nothing awaits. */
  | { readonly kind: 'unawaited'; readonly text: string }
