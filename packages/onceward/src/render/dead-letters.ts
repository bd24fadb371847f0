import type { DeadLetter, DeadLetterCount, DeadLetterSummary } from '../data/dead-letters.ts'
import type { Output } from '../output.ts'
import type { ShownBody } from './body.ts'
import { foldedStack } from './stack.ts'
import { table } from './table.ts'
import { bytes, counted, instant } from './units.ts'
import { cut, toJson, visible, visibleLines } from './visible.ts'

type Styled = Pick<Output, 'style'>

export interface Listed {
  readonly letters: readonly DeadLetterSummary[]
  readonly counts: readonly DeadLetterCount[]
}

const KEY_WIDTH = 40
const ERROR_WIDTH = 60

export function listText({ letters, counts }: Listed, { style }: Styled): string {
  if (letters.length === 0) return 'There are no dead letters that match.'
  const head = ['ID', 'CONSUMER', 'REASON', 'ATTEMPTS', 'LAST FAILED', 'KEY', 'ERROR']
  const rows = letters.map((letter) => [
    ...[letter.id, letter.consumer],
    `${letter.reason}${letter.isRequeued ? ' (requeue not confirmed)' : ''}`,
    String(letter.attempts),
    instant(letter.lastFailedAtMs).slice(0, 19),
    cut(visible(letter.key ?? '–'), KEY_WIDTH),
    cut(visible(firstLine(letter.error)), ERROR_WIDTH),
  ])
  const [first = '', ...rest] = table(head, rows).split('\n')
  const all = counts.reduce((sum, { count }) => sum + count, 0)
  const shown = letters.length < all ? `The oldest ${letters.length} of ` : ''
  return [
    style('bold', first),
    ...rest,
    '',
    `${shown}${counted(all, 'dead letter')}:`,
    countsText(counts),
  ].join('\n')
}

const firstLine = (text: string | null): string => text?.split('\n', 1)[0] ?? '–'

/** One line per consumer and reason. */
export function countsText(
  counts: readonly Pick<DeadLetterCount, 'consumer' | 'reason' | 'count'>[],
): string {
  return counts
    .map(({ consumer, reason, count }) => `  ${visible(consumer)}  ${visible(reason)}  ${count}`)
    .join('\n')
}

export function deadLetterText(letter: DeadLetter, body: ShownBody, { style }: Styled): string {
  const { headers, properties, source } = letter
  const fields: readonly (readonly [string, string])[] = [
    ['id', letter.id],
    ['consumer', letter.consumer],
    ['kind', letter.kind === 'event' ? 'buried event' : 'refused message'],
    ['key', letter.key ?? '–'],
    ...(letter.tenant === null ? [] : ([['tenant', letter.tenant]] as const)),
    ...(letter.type === undefined ? [] : ([['type', letter.type]] as const)),
    ['reason', letter.reason],
    [
      letter.kind === 'event' ? 'attempts' : 'refused',
      `${letter.attempts}${letter.kind === 'event' ? '' : ' times'}`,
    ],
    ['first failed', instant(letter.firstFailedAtMs)],
    ['last failed', instant(letter.lastFailedAtMs)],
    ['published', letter.published ? 'yes' : 'no'],
    ...(letter.isRequeued
      ? ([['requeue', 'not confirmed; a copy may be in its queue']] as const)
      : []),
    ['source', toJson(source)],
    ...Object.entries(properties).map(([name, value]) => [name, String(value)] as const),
    ['headers', toJson(headers)],
    ['body', `${bytes(letter.bodyBytes)}, shown as ${body.form}`],
  ]
  return [
    ...fields.map(([name, value]) => `${style('bold', name.padEnd(13))} ${visible(value)}`),
    '',
    body.text,
    ...(body.note === undefined ? [] : [style('yellow', body.note)]),
    '',
    style('bold', 'error'),
    visibleLines(foldedStack(letter.error ?? '–')),
  ].join('\n')
}
