import type { DeadMessage } from '../data/outbox.ts'
import type { Output } from '../output.ts'
import { table } from './table.ts'
import { counted, instant } from './units.ts'
import { cut, visible } from './visible.ts'

interface Listed {
  readonly messages: readonly DeadMessage[]
  /** Of all that match. */
  readonly counts: readonly { readonly destination: string; readonly count: number }[]
}

const KEY_WIDTH = 40
const ERROR_WIDTH = 60
const HEAD = ['ID', 'DESTINATION', 'ATTEMPTS', 'LAST FAILED', 'BYTES', 'KEY', 'ERROR']

export function deadMessagesText(
  { counts, messages }: Listed,
  { style }: Pick<Output, 'style'>,
): string {
  if (messages.length === 0) return 'There are no dead messages that match.'
  const rows = messages.map(({ attempts, bytes, destination, error, failedAtMs, id, key }) => [
    ...[id, destination, String(attempts), instant(failedAtMs).slice(0, 19), String(bytes)],
    cut(visible(key ?? '–'), KEY_WIDTH),
    cut(visible(error?.split('\n', 1)[0] ?? '–'), ERROR_WIDTH),
  ])
  const [first = '', ...rest] = table(HEAD, rows).split('\n')
  const all = counts.reduce((sum, { count }) => sum + count, 0)
  const shown = messages.length < all ? `The oldest ${messages.length} of ` : ''
  return [
    ...[style('bold', first), ...rest, ''],
    `${shown}${counted(all, 'dead message')}:`,
    ...counts.map(({ count, destination }) => `  ${visible(destination)}  ${count}`),
  ].join('\n')
}
