import type { ProveRow, Stories, WrongEvent } from './stories.ts'

/** What was committed when the worker was killed, and should have been remembered. */
const AFTER_COMMIT: ReadonlySet<ProveRow['point']> = new Set(['commit-answered', 'before-ack'])

const LOST_ALONE =
  'Events are lost without a kill. The handler has returned before its effect was there: look for a forgotten `await` in it and in what it calls, for an error that it catches, and for dead letters (`npx onceward dead-letters list`).'
const LOST_AROUND_KILLS =
  'Events are lost around a kill. They were done for the guard or for the broker before their effects were committed: write effects with the `tx` of the handler and not later, and let the adapter acknowledge.'
const COPIES =
  'Copies of one event have effects of their own. Its key is that of the delivery, such as the message id or the position: take a value of the payload, `eventKey: ({ payload }) => payload.orderId`.'
const UNREMEMBERED =
  'Events are doubled by kills after their COMMIT. Nothing in the transaction remembers that the event is done: run the handler in a guard, with its `tx`.'
const OUTSIDE =
  'Events are doubled by kills. An effect is outside of the transaction of the event: write with the `tx` of the handler and with no other connection, and leave what is no SQL, such as a mail, to `outbox.send` or `afterCommit`.'

/** Sentences that name the usual cause of what was found, and what to do about it. */
export function causesOf({ rows, wrong }: Stories): readonly string[] {
  const lost = wrong.filter(({ effects }) => effects === 0)
  const doubled = wrong.filter(({ effects }) => effects > 1)
  const once = doubled.filter(({ points }) => !points.includes('sent-twice'))
  const found: string[] = []
  if (lost.some(isUntouched)) found.push(LOST_ALONE)
  else if (lost.length > 0) found.push(LOST_AROUND_KILLS)
  if (areCopiesDoubled(rows, once.length)) found.push(COPIES)
  if (once.length > 0) found.push(once.every(isAfterCommit) ? UNREMEMBERED : OUTSIDE)
  return found
}

const isUntouched = ({ points }: WrongEvent): boolean =>
  points.every((point) => point === 'sent-twice')

const isAfterCommit = ({ points }: WrongEvent): boolean =>
  points.some((point) => AFTER_COMMIT.has(point)) && !points.includes('beside')

/** Most of those that were sent twice are doubled, and few of the others. */
function areCopiesDoubled(rows: readonly ProveRow[], once: number): boolean {
  const twice = rows.find(({ point }) => point === 'sent-twice')
  if (twice === undefined || twice.doubled === 0) return false
  return twice.doubled * 2 > twice.events && once < twice.doubled
}
