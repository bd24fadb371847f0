import type { ProveResult, WrongEvent } from '@onceward/testing/prove'
import { table } from './table.ts'
import { counted } from './units.ts'
import { visibleLines } from './visible.ts'

const SHOWN_EVENTS = 5

/** The table of a proof, what is wrong, and how to repeat it. */
export function proofText(result: ProveResult, repeat: string): string {
  const { durationMs, effects, events, freezes, kills, messages } = result
  const head = `${counted(events, 'event')} in ${counted(messages, 'message')}, ${counted(kills, 'kill')}, ${counted(freezes, 'freeze')}, ${counted(effects, 'effect')}, in ${Math.round(durationMs / 1_000)} s`
  const parts = [
    head,
    rowsText(result),
    ...(result.unseen.length === 0 ? [] : [unseenText(result.unseen)]),
    ...(result.wrong.length === 0 ? [] : [wrongText(result.wrong)]),
    ...[...result.causes, ...result.remarks].map((text) => `• ${visibleLines(text)}`),
    `${verdictOf(result)}\nThe same plan again: ${repeat}`,
  ]
  return parts.join('\n\n')
}

function rowsText({ doubled, events, lost, rows }: ProveResult): string {
  const cells = rows.map((row) => [
    row.title,
    row.blows === undefined ? '' : String(row.blows),
    ...[row.events, row.lost, row.doubled].map(String),
  ])
  const all = ['all events', '', ...[events, lost, doubled].map(String)]
  return table(['COUNTED BY EVENT', 'TIMES', 'EVENTS', 'LOST', 'DOUBLED'], [...cells, all])
}

const unseenText = (unseen: readonly string[]): string =>
  `Not seen on the wire of this consumer, so nothing was killed there: ${unseen.join(', ')}.`

function wrongText(wrong: readonly WrongEvent[]): string {
  const shown = wrong.slice(0, SHOWN_EVENTS).map(({ effects, event, happened }) => {
    const what = effects === 0 ? 'no effect' : counted(effects, 'effect')
    return `event(${event}): ${what}; ${happened.join(', ')}`
  })
  const more = wrong.length - shown.length
  return [...shown, ...(more > 0 ? [`… and ${more} more`] : [])].join('\n')
}

function verdictOf({ doubled, events, left, lost }: ProveResult): string {
  if (lost === 0 && doubled === 0 && left === 0) {
    return `Exact: each of the ${events} events has its effect once.`
  }
  if (lost === 0 && doubled === 0) return 'NOT PROVED: not all messages were done.'
  return `NOT EXACT: ${lost} lost, ${doubled} doubled.`
}
