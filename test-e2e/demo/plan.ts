/** Where in its work a worker is killed or paused. */
export type Moment = 'in-transaction' | 'before-announcement' | 'before-ack'

/** Once that many handler runs have begun, the next worker that reaches `moment` is killed or paused there. */
export interface PlannedBlow {
  readonly kind: 'kill' | 'pause'
  readonly afterRuns: number
  readonly moment: Moment
}

/** Kills at random times over the whole run, alternately after the commit and inside a transaction. */
export function killPlan(
  events: number,
  kills: number,
  afterCommit: Exclude<Moment, 'in-transaction'> = 'before-ack',
): readonly PlannedBlow[] {
  const distance = (events * 0.8) / kills
  return Array.from({ length: kills }, (_, index) => ({
    kind: 'kill',
    afterRuns: Math.floor((index + Math.random()) * distance),
    moment: index % 2 === 0 ? afterCommit : 'in-transaction',
  }))
}

/** The same kills, and before them one worker that is paused inside a transaction. */
export function withPause(kills: readonly PlannedBlow[]): readonly PlannedBlow[] {
  return [{ kind: 'pause', afterRuns: 1, moment: 'in-transaction' }, ...kills]
}

/** The orders as they are sent: each once, and one in ten again a little later, as by a producer that retries. */
export function announcements(events: number): readonly number[] {
  const due = Array.from({ length: events }, (_, index) => [{ orderId: index + 1, at: index }])
  const again = due.flat().filter(({ orderId }) => orderId % 10 === 5)
  const later = again.map(({ orderId, at }) => ({ orderId, at: at + 1 + Math.random() * 20 }))
  return [...due.flat(), ...later].sort((a, b) => a.at - b.at).map(({ orderId }) => orderId)
}
