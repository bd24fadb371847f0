import type { CrashPoint, Deed, Word } from '../support/workers/protocol.ts'

/** How the first worker comes to its end: by itself at a point, or by the test while its COMMIT is on the wire. */
export type Death =
  | { readonly kind: 'at'; readonly point: CrashPoint }
  /** `arrives`: the server gets the COMMIT, the worker never its answer. */
  | { readonly kind: 'at-commit'; readonly arrives: boolean }

/** A row of the failure table of design.md §11, or a step of an adapter that belongs to one. */
export interface Row {
  /** Word for word. */
  readonly title: string
  /** Its name in traps.md. */
  readonly trap?: string | undefined
  /** Which of several cases of the row. */
  readonly case?: string | undefined
  readonly death: Death
  readonly deed?: Deed | undefined
  /** The event is run from the store: it was dead, and an operator replays it. */
  readonly replayed?: true | undefined
  /** There is such a moment only where leases stand beside the inbox. */
  readonly leased?: true | undefined
  /** Its run has begun; where a first delivery may be a suspect, as after an assignment of Kafka, that is recorded. */
  readonly begun?: true | undefined
  /** The state of the row once the worker is dead. */
  readonly leaves: 'd' | 'w' | 'x' | 'r' | undefined
  /**
   * What the next worker settles its first redelivery as, once no lease of the dead one stands in the way; a parked
   * event has none.
   */
  readonly finds: string | undefined
  readonly effects: 0 | 1
  /** Copies in the broker's dead-letter place. */
  readonly deadLetters: 0 | 1 | 2
}

const at = (point: CrashPoint): Death => ({ kind: 'at', point })

const once = { effects: 1, deadLetters: 0 } as const

const dying = { leaves: 'x', finds: 'fatal', effects: 0, deed: 'fatal-until-mended' } as const

/** The naive change that makes a row red stands beside it. */
export const ROWS: readonly Row[] = [
  {
    // Red when the adapter settles on receipt.
    title: 'before claim',
    death: at('before-claim'),
    leaves: undefined,
    finds: 'processed',
    ...once,
  },
  {
    // Red when a lease that ran out is no takeover, or when leases outlive their time.
    title: 'after claim, before BEGIN',
    death: at('before-begin'),
    leased: true,
    leaves: undefined,
    finds: 'processed',
    ...once,
  },
  {
    // Red when the claim is committed before the handler runs.
    title: 'inside the transaction',
    trap: 'trap T4',
    death: at('in-transaction'),
    begun: true,
    leaves: undefined,
    finds: 'processed',
    ...once,
  },
  {
    // Red when the row is written after the business transaction.
    title: 'COMMIT sent, reply lost',
    case: 'the COMMIT arrived',
    death: { kind: 'at-commit', arrives: true },
    leaves: 'd',
    finds: 'duplicate',
    ...once,
  },
  {
    // Red when the message is acknowledged before COMMIT is answered.
    title: 'COMMIT sent, reply lost',
    case: 'the COMMIT did not arrive',
    death: { kind: 'at-commit', arrives: false },
    begun: true,
    leaves: undefined,
    finds: 'processed',
    ...once,
  },
  {
    // Red when a takeover is run without a look at the row.
    title: 'after COMMIT, before lease `done`',
    death: at('before-complete'),
    leased: true,
    leaves: 'd',
    finds: 'duplicate',
    ...once,
  },
  {
    // Red when a claim ignores `on conflict`, or when the row goes after the run.
    title: 'after `done`, before ack',
    trap: 'acceptance A1',
    death: at('before-ack'),
    leaves: 'd',
    finds: 'duplicate',
    ...once,
  },
  {
    // Red for the same reasons.
    title: 'ack in the socket buffer',
    death: at('ack-on-wire'),
    leaves: 'd',
    finds: 'duplicate',
    ...once,
  },
  {
    // Red when the backoff lives in the process or in the broker's delay alone: it would run at once.
    title: "after `fail`, before the broker's defer",
    death: at('before-defer'),
    deed: 'fail-once',
    leaves: 'w',
    finds: 'not-due',
    ...once,
  },
  {
    // Red for the same reason.
    title: "after `fail`, before the broker's defer",
    case: 'which is in the socket buffer',
    death: at('defer-on-wire'),
    deed: 'fail-once',
    leaves: 'w',
    finds: 'not-due',
    ...once,
  },
  {
    // Red when the copy is not known for the same event.
    title: "after `fail`, before the broker's defer",
    case: 'of which the delayed copy is there, and the original too',
    death: at('release-on-wire'),
    deed: 'fail-once',
    leaves: 'w',
    finds: 'not-due',
    ...once,
  },
  {
    // Red when a dead event is settled without a look at `published`.
    title: "while burying, before the broker's dead letter",
    case: 'which is not sent yet',
    death: at('before-dead-letter'),
    ...dying,
    deadLetters: 1,
  },
  {
    // Red for the same reason.
    title: "while burying, before the broker's dead letter",
    case: 'which is in the socket buffer',
    death: at('dead-letter-on-wire'),
    ...dying,
    deadLetters: 1,
  },
  {
    // Red when `published` is written before the broker has confirmed: of two copies one would be missing.
    title: "while burying, before the broker's dead letter",
    case: 'is recorded as published',
    death: at('after-dead-letter'),
    ...dying,
    deadLetters: 2,
  },
  {
    // Red when a dead event is published without a look at `published`.
    title: "while burying, before the broker's dead letter",
    case: 'takes the place of the original',
    death: at('before-release'),
    ...dying,
    deadLetters: 1,
  },
  {
    // Red when the poller looks for `w` alone.
    title: 'while running a parked event',
    death: at('in-transaction'),
    deed: 'fatal-until-mended',
    replayed: true,
    leaves: 'r',
    finds: undefined,
    effects: 1,
    // From before the replay.
    deadLetters: 1,
  },
]

const WORDS: readonly Word[] = [
  'ack-on-wire',
  'defer-on-wire',
  'release-on-wire',
  'dead-letter-on-wire',
]

/** What the client writes when the process dies, where that is the point. */
export function wordOf({ death }: Row): Word | undefined {
  return WORDS.find((word) => death.kind === 'at' && death.point === word)
}
