/** Where a process that charges and announces dies, or freezes. */
export type Death =
  | 'before-flush'
  | 'before-commit'
  | 'commit-lost'
  | 'commit-arrives'
  | 'after-commit'
  | 'publishing'
  | 'before-delete'
  | 'frozen'
  | 'never'

/** What the process is told: to handle an order, to relay, or to drain its relay. */
export type Told = number | 'relay' | 'drain'

/** The order that kills a process whose handler is to die. */
export const FATAL_ORDER = 4
export const KEYS = 3

/** The wire shows by it whose transaction it carries. */
export const chargeText = (n: number): string => `insert into charges values (${n})`
