import type { DeadMessage, MessageState, StoredMessage } from '../data/outbox.ts'
import type { Output } from '../output.ts'
import type { ShownBody } from './body.ts'
import { table } from './table.ts'
import { bytes, counted, instant } from './units.ts'
import { cut, toJson, visible, visibleLines } from './visible.ts'

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
  const rows = messages.map(
    ({ attempts, bytes: size, destination, error, failedAtMs, id, key }) => [
      ...[id, destination, String(attempts), instant(failedAtMs).slice(0, 19), String(size)],
      cut(visible(key ?? '–'), KEY_WIDTH),
      cut(visible(error?.split('\n', 1)[0] ?? '–'), ERROR_WIDTH),
    ],
  )
  const [first = '', ...rest] = table(HEAD, rows).split('\n')
  const all = counts.reduce((sum, { count }) => sum + count, 0)
  const shown = messages.length < all ? `The oldest ${messages.length} of ` : ''
  return [
    ...[style('bold', first), ...rest, ''],
    `${shown}${counted(all, 'dead message')}:`,
    ...counts.map(({ count, destination }) => `  ${visible(destination)}  ${count}`),
  ].join('\n')
}

/** What a message waits for. */
export const MESSAGE_STATES: Readonly<Record<MessageState, string>> = {
  q: 'waits for a relay',
  d: 'is delayed',
  w: 'was refused and is tried again',
  h: 'waits behind a message of its key that was refused',
  x: 'is dead',
}

export function messageText(
  message: StoredMessage,
  body: ShownBody,
  { style }: Pick<Output, 'style'>,
): string {
  const at = (instantMs: number | null): string => (instantMs === null ? '–' : instant(instantMs))
  const { attempts, createdAtMs, destination, dueAtMs, error, event, failedAtMs, headers } = message
  const fields: readonly (readonly [string, string])[] = [
    ['id', message.id],
    ['destination', destination],
    ['state', MESSAGE_STATES[message.state]],
    ['key', message.key ?? '–'],
    ['sent by', message.source],
    ['event', event ?? '–'],
    ['type', message.type],
    ['attempts', String(attempts)],
    ['sent', instant(createdAtMs)],
    ...(dueAtMs === null ? [] : ([['due', at(dueAtMs)]] as const)),
    ...(failedAtMs === null ? [] : ([['last failed', at(failedAtMs)]] as const)),
    ['headers', toJson(headers)],
    ['payload', `${bytes(message.bytes)}, shown as ${body.form}`],
  ]
  return [
    ...fields.map(([name, value]) => `${style('bold', name.padEnd(13))} ${visible(value)}`),
    '',
    body.text,
    ...(body.note === undefined ? [] : [style('yellow', body.note)]),
    ...(error === null ? [] : ['', style('bold', 'error'), visibleLines(error)]),
    ...(event === null ? [] : ['', `The event: npx onceward explain --id ${event}`]),
  ].join('\n')
}
