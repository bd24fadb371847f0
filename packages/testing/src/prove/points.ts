/** Where a worker is killed. */
export const POINTS = [
  'before-first-statement',
  'after-first-statement',
  'before-commit',
  'commit-sent',
  'commit-answered',
  'before-ack',
  'frozen',
  'received',
  'working',
] as const

/** One of {@link POINTS}. */
export type Point = (typeof POINTS)[number]

/** Of a transaction in PostgreSQL, as the wire shows it. */
export const TRANSACTION_POINTS: readonly Point[] = [
  'before-first-statement',
  'after-first-statement',
  'before-commit',
  'commit-sent',
  'commit-answered',
]

/** They need no transaction, and take the place of those that do. */
export const OTHER_POINTS: readonly Point[] = ['received', 'working', 'before-ack']

/** What the table says of each. */
export const POINT_TITLES: Readonly<Record<Point, string>> = {
  'before-first-statement': 'killed before the first statement',
  'after-first-statement': 'killed after the first statement',
  'before-commit': 'killed before COMMIT',
  'commit-sent': 'killed with COMMIT sent',
  'commit-answered': 'killed with COMMIT answered',
  'before-ack': 'killed before the ack',
  frozen: 'frozen, and continued later',
  received: 'killed when it was received',
  working: 'killed some moment later',
}
