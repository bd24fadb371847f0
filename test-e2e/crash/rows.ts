import type { CrashPoint, Deed, Word } from '../support/workers/protocol.ts'

/** How the first worker dies: by itself at a point, or killed by the test while its COMMIT is on the wire. */
export type Death =
  | { readonly kind: 'at'; readonly point: CrashPoint }
  /** `arrives`: the server gets the COMMIT, and the worker never gets the answer. */
  | { readonly kind: 'at-commit'; readonly arrives: boolean }

/** A row of the failure table of design.md §11, or a step of an adapter that belongs to one. */
export interface Row {
  /** As it stands in the table. */
  readonly title: string
  /** The name of the trap in traps.md. */
  readonly trap?: string | undefined
  /** Which case of the row, if there are several. */
  readonly case?: string | undefined
  readonly death: Death
  readonly deed?: Deed | undefined
  /** The event runs from the store: it was dead, and an operator replays it. */
  readonly replayed?: true | undefined
  /** The event is one of three in its message. */
  readonly split?: true | undefined
  /** The crash point exists only with leases beside the inbox. */
  readonly leased?: true | undefined
  /** The run has begun. If a first delivery may be a suspect, as after a Kafka assignment, that run is recorded. */
  readonly begun?: true | undefined
  /** The state of the row once the worker is dead. */
  readonly leaves: 'd' | 'w' | 'x' | 'r' | undefined
  /** The claim of the event in a Redis that stayed up or kept its data, once the worker is dead. */
  readonly lease: LeaseLeft
  /**
   * How the next worker settles the first redelivery, once the dead worker's lease has expired. A parked event has
   * no redelivery: its run from the store is reported.
   */
  readonly finds: string
  readonly effects: 0 | 1
  /** Copies in the broker's dead-letter queue. */
  readonly deadLetters: 0 | 1 | 2
}

/** What the lease store holds of an event: a claim, a wait, or no claim. */
export type LeaseLeft = 'in progress' | 'waiting' | 'none'

const at = (point: CrashPoint): Death => ({ kind: 'at', point })

const once = { effects: 1, deadLetters: 0 } as const

const dying = {
  leaves: 'x',
  lease: 'none',
  finds: 'fatal',
  effects: 0,
  deed: 'fatal-until-mended',
} as const

/** The comment of each row names a plausible wrong change that the row detects. */
export const ROWS: readonly Row[] = [
  {
    // Red when the adapter settles on receipt.
    title: 'before claim',
    death: at('before-claim'),
    leaves: undefined,
    lease: 'none',
    finds: 'processed',
    ...once,
  },
  {
    // Red when an expired lease cannot be taken over, or when leases do not expire.
    title: 'after claim, before BEGIN',
    death: at('before-begin'),
    leased: true,
    leaves: undefined,
    lease: 'in progress',
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
    lease: 'in progress',
    finds: 'processed',
    ...once,
  },
  {
    // Red when a message is acknowledged before all its events are done, or when those that are done run again.
    title: 'inside a message with several events',
    death: at('in-transaction'),
    split: true,
    begun: true,
    leaves: undefined,
    lease: 'in progress',
    finds: 'processed',
    ...once,
  },
  {
    // Red when the row is written after the business transaction.
    title: 'COMMIT sent, reply lost',
    case: 'the COMMIT arrived',
    death: { kind: 'at-commit', arrives: true },
    leaves: 'd',
    lease: 'in progress',
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
    lease: 'in progress',
    finds: 'processed',
    ...once,
  },
  {
    // Red when a takeover runs the handler without reading the row.
    title: 'after COMMIT, before lease `done`',
    death: at('before-complete'),
    leased: true,
    leaves: 'd',
    lease: 'in progress',
    finds: 'duplicate',
    ...once,
  },
  {
    // Red when the message is acknowledged before `afterCommit` has answered, or when a duplicate does not call it.
    title: 'after COMMIT, before `afterCommit`',
    death: at('before-reply'),
    leaves: 'd',
    lease: 'none',
    finds: 'duplicate',
    ...once,
  },
  {
    // Red when a claim ignores `on conflict`, or when the row is deleted after the run.
    title: 'after `done`, before ack',
    trap: 'acceptance A1',
    death: at('before-ack'),
    leaves: 'd',
    lease: 'none',
    finds: 'duplicate',
    ...once,
  },
  {
    // Red for the same reasons.
    title: 'ack in the socket buffer',
    death: at('ack-on-wire'),
    leaves: 'd',
    lease: 'none',
    finds: 'duplicate',
    ...once,
  },
  {
    // Red when the back-off exists only in the process or in the broker's delay: the redelivery would run at once.
    title: "after `fail`, before the broker's defer",
    death: at('before-defer'),
    deed: 'fail-once',
    leaves: 'w',
    lease: 'waiting',
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
    lease: 'waiting',
    finds: 'not-due',
    ...once,
  },
  {
    // Red when the delayed copy is taken for another event.
    title: "after `fail`, before the broker's defer",
    case: 'of which the delayed copy is there, and the original too',
    death: at('release-on-wire'),
    deed: 'fail-once',
    leaves: 'w',
    lease: 'waiting',
    finds: 'not-due',
    ...once,
  },
  {
    // Red when a dead event is settled without reading `published`.
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
    // Red when `published` is written before the broker has confirmed: then the second copy would be missing.
    title: "while burying, before the broker's dead letter",
    case: 'is recorded as published',
    death: at('after-dead-letter'),
    ...dying,
    deadLetters: 2,
  },
  {
    // Red when a dead event is published without reading `published`.
    title: "while burying, before the broker's dead letter",
    case: 'takes the place of the original',
    death: at('before-release'),
    ...dying,
    deadLetters: 1,
  },
  {
    // Red when the poller reads only rows in state `w`.
    title: 'while running a parked event',
    death: at('in-transaction'),
    deed: 'fatal-until-mended',
    replayed: true,
    leaves: 'r',
    // No delivery competes for it, so its run takes no lease.
    lease: 'none',
    finds: 'processed',
    effects: 1,
    // The dead letter from before the replay.
    deadLetters: 1,
  },
]

const WORDS: readonly Word[] = [
  'ack-on-wire',
  'defer-on-wire',
  'release-on-wire',
  'dead-letter-on-wire',
]

/** The word on the wire at which the process dies, if the crash point is one. */
export function wordOf({ death }: Row): Word | undefined {
  return WORDS.find((word) => death.kind === 'at' && death.point === word)
}
