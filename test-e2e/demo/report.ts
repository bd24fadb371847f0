import type { DemoOptions } from './options.ts'
import type { PhaseResult } from './phase.ts'

export interface DemoResult {
  readonly options: DemoOptions
  readonly durationMs: number
  readonly unguarded: PhaseResult
  readonly guarded: PhaseResult
}

const LABEL_WIDTH = 44
const COLUMN_WIDTH = 20
export const RULE: string = '─'.repeat(LABEL_WIDTH + 2 * COLUMN_WIDTH)

/** Whether the guard kept its promise. */
export function isExact({ guarded }: DemoResult): boolean {
  return guarded.lost === 0 && guarded.doubled === 0 && guarded.wrongAccounts === 0
}

export function table(result: DemoResult): string {
  const { unguarded, guarded } = result
  const row = (label: string, cell: (phase: PhaseResult) => number | string): string =>
    line(label, String(cell(unguarded)), String(cell(guarded)))
  return [
    line('counted in Postgres, by order', 'without the guard', 'with the guard'),
    RULE,
    row('orders', ({ events }) => events),
    row('deliveries', ({ deliveries }) => deliveries),
    row('workers killed', ({ kills }) => kills),
    row('charges', ({ effects }) => effects),
    row('orders never charged', ({ lost }) => lost),
    row('orders charged more than once', ({ doubled }) => doubled),
    row('  of them sent once, delivered again', ({ doubledByBroker }) => doubledByBroker),
    row('accounts with a wrong balance', (of) => `${of.wrongAccounts} of ${of.accounts}`),
    row('taken too much', ({ excessCents }) => (excessCents / 100).toFixed(2)),
  ].join('\n')
}

export function line(label: string, ...cells: readonly string[]): string {
  return label.padEnd(LABEL_WIDTH) + cells.map((cell) => cell.padStart(COLUMN_WIDTH)).join('')
}

export function verdict(result: DemoResult): string {
  const { events, deliveries, kills } = result.guarded
  if (isExact(result)) {
    return `With the guard every order was charged once: ${events} orders, ${deliveries} deliveries, ${kills} killed workers.`
  }
  return 'The guard FAILED: see the right column. Please report this, with the output above.'
}

export function toJson({ options, durationMs, guarded, unguarded }: DemoResult): string {
  const { events, deliveries, kills, effects, lost, doubled } = guarded
  return JSON.stringify({
    broker: options.broker,
    events,
    deliveries,
    kills,
    effects,
    lost,
    doubled,
    durationMs: Math.round(durationMs),
    unguarded: {
      effects: unguarded.effects,
      lost: unguarded.lost,
      doubled: unguarded.doubled,
    },
  })
}
