/** Where a process that charges and announces dies, or freezes. */
export type Death =
  | 'before-flush'
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
