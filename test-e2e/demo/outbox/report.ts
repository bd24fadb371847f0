import type { PhaseResult } from '../phase.ts'
import { type DemoResult, line, RULE } from '../report.ts'
import type { Announced } from './accounting.ts'

const announcedOf = ({ announced }: PhaseResult): Announced => {
  if (announced === undefined) throw new Error('expected a run that announces')
  return announced
}

/** Whether the outbox kept its promise. */
export function isExactOutbox({ guarded }: DemoResult): boolean {
  const { announced, announcedTwice, unannounced } = announcedOf(guarded)
  const isCharged = guarded.lost === 0 && guarded.doubled === 0 && guarded.wrongAccounts === 0
  return isCharged && announced === guarded.events && unannounced + announcedTwice === 0
}

export function outboxTable({ guarded, unguarded }: DemoResult): string {
  const row = (label: string, cell: (phase: PhaseResult) => number): string =>
    line(label, String(cell(unguarded)), String(cell(guarded)))
  return [
    line('counted in Postgres, by order', 'announced by hand', 'with the outbox'),
    RULE,
    row('orders', ({ events }) => events),
    row('deliveries', ({ deliveries }) => deliveries),
    row('workers killed', ({ kills }) => kills),
    row('charges', ({ effects }) => effects),
    row('payments announced', (of) => announcedOf(of).announced),
    row('orders charged and never announced', (of) => announcedOf(of).unannounced),
    row('orders announced more than once', (of) => announcedOf(of).announcedTwice),
  ].join('\n')
}

export function outboxVerdict(result: DemoResult): string {
  const { deliveries, events, kills } = result.guarded
  return isExactOutbox(result)
    ? `With the outbox every payment was announced once: ${events} of ${events}, ${deliveries} deliveries, ${kills} killed workers.`
    : 'The outbox FAILED: see the right column. Please report this, with the output above.'
}

/** The same line as that of the other demos: the effects are announcements. */
export function outboxJson({ durationMs, guarded, options, unguarded }: DemoResult): string {
  const counted = (phase: PhaseResult) => {
    const { announced, announcedTwice, unannounced } = announcedOf(phase)
    return { effects: announced, lost: unannounced, doubled: announcedTwice }
  }
  const { deliveries, events, kills } = guarded
  return JSON.stringify({
    ...{ broker: options.broker, events, deliveries, kills, ...counted(guarded) },
    ...{ durationMs: Math.round(durationMs), unguarded: counted(unguarded) },
  })
}
