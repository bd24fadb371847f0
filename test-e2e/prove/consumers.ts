/** A consumer of the folder, and what a proof of it finds. */
export interface ProvedConsumer {
  readonly file: string
  readonly title: string
  /** How many blows, and the seed that begins with those that show the mistake. */
  readonly kills: number
  readonly seed: number
}

export interface WrongConsumer extends ProvedConsumer {
  readonly finds: 'lost' | 'doubled'
  /** In the cause that is told. */
  readonly says: string
}

/** The seeds of one blow before the COMMIT, and after it. */
const BEFORE_COMMIT = 4
const COMMIT_ANSWERED = 8

export const WRONG: readonly WrongConsumer[] = [
  {
    ...{ file: 'wrong-outside-tx', title: 'a repository that writes outside of tx' },
    ...{ kills: 1, seed: BEFORE_COMMIT, finds: 'doubled', says: 'outside of the transaction' },
  },
  {
    ...{ file: 'wrong-mail-first', title: 'a mail before the commit' },
    ...{ kills: 1, seed: BEFORE_COMMIT, finds: 'doubled', says: 'outside of the transaction' },
  },
  {
    ...{ file: 'wrong-forgotten-await', title: 'a helper that nothing awaits' },
    ...{ kills: 0, seed: 1, finds: 'lost', says: 'forgotten `await`' },
  },
  {
    ...{ file: 'wrong-delivery-key', title: 'a key of the delivery' },
    ...{ kills: 0, seed: 1, finds: 'doubled', says: 'key is that of the delivery' },
  },
  {
    ...{ file: 'wrong-buffered', title: 'effects that wait in memory' },
    ...{ kills: 1, seed: COMMIT_ANSWERED, finds: 'lost', says: 'around a kill' },
  },
]

/** With a freeze among the blows. */
const ALL_POINTS = { kills: 7, seed: 7 }

export const RIGHT: readonly ProvedConsumer[] = [
  { file: 'right-pg', title: 'pg', ...ALL_POINTS },
  { file: 'right-batch', title: 'pg, events in one transaction', ...ALL_POINTS },
  { file: 'right-kysely', title: 'Kysely', ...ALL_POINTS },
  { file: 'right-leases', title: 'pg, leases in Redis', ...ALL_POINTS },
  { file: 'right-redis', title: 'effects in Redis', ...ALL_POINTS },
]
