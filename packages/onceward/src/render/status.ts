import { troublesOf } from '../data/consumer-trouble.ts'
import type { ConsumerStatus, PausedStatus, Status, TableStatus } from '../data/status.ts'
import type { Output } from '../output.ts'
import { table } from './table.ts'
import { bytes, duration, instant, relative } from './units.ts'
import { visible } from './visible.ts'

/** Now, and the status before it if there was one. */
export interface Shown {
  readonly status: Status
  readonly before?: Status | undefined
  /** Whether the tables are shown with their sizes. */
  readonly hasTables?: boolean | undefined
}

export function statusText(
  { status, before, hasTables = false }: Shown,
  { style }: Pick<Output, 'style'>,
): string {
  const { consumers, leases, nowMs, sweptAtMs, version } = status
  const about = [
    `tables version ${version}`,
    sweptAtMs === null ? 'never swept' : `swept ${relative(sweptAtMs, nowMs)}`,
    ...(leases === null ? [] : [`${leases} leases in PostgreSQL`]),
  ].join(', ')
  const parts = [
    titled(
      style,
      table(
        CONSUMER_HEAD,
        consumers.map((each) => consumerRow(each, status)),
      ),
      consumers.map((each) => styleOf(each, nowMs)),
    ),
    ...deadPart(status, style),
    ...unpublishedPart(status, style),
    ...outboxPart(status, style),
    ...(hasTables ? [tablesPart({ status, before }, style)] : []),
  ]
  const bound = status.ratesAreWhole
    ? []
    : ['Done counts are a lower bound: the table is too large to be read whole.']
  const none = consumers.length === 0 ? ['No consumer has registered yet.'] : []
  const urgent = [...pausedPart(status, { style }), ...noWorkerPart(status, { style })]
  return [about, ...none, ...urgent, ...parts, ...bound].join('\n\n')
}

type Style = Output['style']

/** `styles` are those of the rows; undefined for a row that is as it should be. */
function titled(style: Style, text: string, styles: readonly RowStyle[] = []): string {
  const [head = '', ...rest] = text.split('\n')
  const rows = rest.map((row, at) => {
    const own = styles[at]
    return own === undefined ? row : style(own, row)
  })
  return [style('bold', head), ...rows].join('\n')
}

type RowStyle = 'red' | 'yellow' | undefined

/** Red: somebody is needed. Yellow: mends itself. */
function styleOf(consumer: ConsumerStatus, nowMs: number): RowStyle {
  const [worst] = troublesOf(consumer, nowMs)
  if (worst === undefined) return undefined
  return worst.trouble === 'waiting' ? 'yellow' : 'red'
}

function tablesPart(shown: Shown, style: Style): string {
  const rows = shown.status.tables.map((each) => tableRow(each, shown))
  return titled(style, table(TABLE_HEAD, rows))
}

const CONSUMER_HEAD = [
  ...['CONSUMER', 'DONE/MIN', 'DONE/H', 'FAILED/H', 'IN HAND', 'WAITING', 'PARKED', 'DEAD'],
  ...['OLDEST WAITING', 'NEXT TRY', 'WORKERS'],
]

function consumerRow(consumer: ConsumerStatus, { nowMs }: Status): readonly string[] {
  const ago = (ms: number | null): string => (ms === null ? '–' : relative(ms, nowMs))
  const dead = consumer.dead.reduce((sum, { count }) => sum + count, 0)
  return [
    ...[consumer.name, consumer.doneMinute, consumer.doneHour, consumer.failedHour].map(String),
    ...[consumer.inHand, consumer.waiting, consumer.parked, dead].map(String),
    ...[ago(consumer.oldestWaitingMs), ago(consumer.nextTryMs), workersCell(consumer)],
  ]
}

/** `–` where no heartbeats are sent, as by a Lambda function. */
function workersCell({ noWorkerSinceMs, workers }: ConsumerStatus): string {
  if (noWorkerSinceMs !== null) return 'none'
  return workers.length === 0 ? '–' : String(workers.length)
}

/** The first thing that an operator should see. */
function noWorkerPart(
  { consumers, nowMs }: Status,
  { style }: Pick<Output, 'style'>,
): readonly string[] {
  const lines = consumers.flatMap(({ name, noWorkerSinceMs }) =>
    noWorkerSinceMs === null ? [] : [noWorkerText(name, noWorkerSinceMs, nowMs)],
  )
  return lines.length === 0 ? [] : [style(['bold', 'red'], lines.join('\n'))]
}

/** No worker has sent a heartbeat since then, and none was closed later. */
export const noWorkerText = (consumer: string, sinceMs: number, nowMs: number): string =>
  `No worker of ${consumer} since ${instant(sinceMs)} (${relative(sinceMs, nowMs)}).`

/** A paused consumer must not be forgotten. */
function pausedPart(
  { consumers, nowMs }: Status,
  { style }: Pick<Output, 'style'>,
): readonly string[] {
  const lines = consumers.flatMap(({ name, paused }) =>
    paused === null ? [] : [pausedText(name, paused, nowMs)],
  )
  return lines.length === 0 ? [] : [style('bold', lines.join('\n'))]
}

const PAUSERS = { operator: 'an operator', handler: 'its handler', guard: 'its guard' }

function pausedText(consumer: string, paused: PausedStatus, nowMs: number): string {
  const { by, sinceMs, source, untilMs, why } = paused
  const until = untilMs === null ? '' : ` until ${instant(untilMs)}`
  const reason = why === null ? '' : `: ${visible(why)}`
  return `${consumer} is paused by ${visible(by ?? PAUSERS[source])} since ${instant(sinceMs)} (${relative(sinceMs, nowMs)})${until}${reason}. End it with \`npx onceward resume ${consumer}\`.`
}

function deadPart({ consumers, nowMs }: Status, style: Style): readonly string[] {
  const rows = consumers.flatMap(({ dead }) =>
    dead.map(({ consumer, count, oldestMs, reason }) => [
      ...[consumer, reason, String(count), duration(nowMs - oldestMs)],
    ]),
  )
  const head = ['DEAD LETTERS OF', 'REASON', 'COUNT', 'OLDEST']
  return rows.length === 0
    ? []
    : [
        titled(
          style,
          table(head, rows),
          rows.map(() => 'red'),
        ),
      ]
}

/** Dead letters that their dead-letter place has not taken yet. Usually empty. */
function unpublishedPart({ consumers, nowMs }: Status, style: Style): readonly string[] {
  const rows = consumers.flatMap(({ name, oldestUnpublishedMs, unpublished }) =>
    oldestUnpublishedMs === null
      ? []
      : [[name, String(unpublished), duration(nowMs - oldestUnpublishedMs)]],
  )
  const head = ['NOT PUBLISHED YET', 'COUNT', 'OLDEST']
  return rows.length === 0
    ? []
    : [
        titled(
          style,
          table(head, rows),
          rows.map(() => 'red'),
        ),
      ]
}

/** Only where something waits or is dead: a relay deletes what has left. */
function outboxPart({ nowMs, outbox }: Status, style: Style): readonly string[] {
  const rows = (outbox ?? []).map(
    ({ dead, delayed, destination, isServed, oldestWaitingMs, refused, waiting }) => [
      ...[destination, ...[waiting, delayed, refused, dead].map(String)],
      ...[oldestWaitingMs === null ? '–' : relative(oldestWaitingMs, nowMs)],
      ...[isServed ? 'runs' : 'none'],
    ],
  )
  const head = ['OUTBOX TO', 'WAITING', 'DELAYED', 'REFUSED', 'DEAD', 'OLDEST WAITING', 'RELAY']
  const styles = (outbox ?? []).map(({ dead, isServed, refused }): RowStyle => {
    if (dead > 0 || !isServed) return 'red'
    return refused > 0 ? 'yellow' : undefined
  })
  return rows.length === 0 ? [] : [titled(style, table(head, rows), styles)]
}

const TABLE_HEAD = ['TABLE', 'ROWS (ABOUT)', 'SIZE', 'DEAD ROWS', 'GROWTH']

function tableRow(now: TableStatus, { before, status }: Shown): readonly string[] {
  const then = before?.tables.find(({ name }) => name === now.name)
  const seconds = before === undefined ? 0 : (status.nowMs - before.nowMs) / 1_000
  const growth =
    then === undefined || seconds <= 0
      ? '–'
      : `+${rate(now.inserted - then.inserted, seconds)} −${rate(now.deleted - then.deleted, seconds)} rows/s`
  const rows = Math.round(now.rows).toLocaleString('en')
  return [now.name, rows, bytes(now.bytes), now.deadRows.toLocaleString('en'), growth]
}

const rate = (count: number, seconds: number): string => (Math.max(0, count) / seconds).toFixed(1)
