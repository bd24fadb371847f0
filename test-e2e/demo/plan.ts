/** Where in its work a worker is hit. */
export type Moment = 'in-transaction' | 'before-ack'

/** The next worker that reaches `moment` is hit there, once that many runs of the handler have begun. */
export interface PlannedBlow {
  readonly kind: 'kill' | 'pause'
  readonly afterRuns: number
  readonly moment: Moment
}

/** Kills at random times, spread over the run, in turns before the acknowledgement and inside a transaction. */
export function killPlan(events: number, kills: number): readonly PlannedBlow[] {
  const distance = (events * 0.8) / kills
  return Array.from({ length: kills }, (_, index) => ({
    kind: 'kill',
    afterRuns: Math.floor((index + Math.random()) * distance),
    moment: index % 2 === 0 ? 'before-ack' : 'in-transaction',
  }))
}

/** The same kills, and before them one worker that falls silent with a transaction open. */
export function withPause(kills: readonly PlannedBlow[]): readonly PlannedBlow[] {
  return [{ kind: 'pause', afterRuns: 1, moment: 'in-transaction' }, ...kills]
}

/** The orders to announce, in order: each once, and one in ten once more a little later, by a producer that retries. */
export function announcements(events: number): readonly number[] {
  const due = Array.from({ length: events }, (_, index) => [{ orderId: index + 1, at: index }])
  const again = due.flat().filter(({ orderId }) => orderId % 10 === 5)
  const later = again.map(({ orderId, at }) => ({ orderId, at: at + 1 + Math.random() * 20 }))
  return [...due.flat(), ...later].sort((a, b) => a.at - b.at).map(({ orderId }) => orderId)
}
