import { ask } from './ask.js'
import { cell, h, instant, number, replace, table } from './dom.js'
import { plot } from './plot.js'

const HEAD = [
  ...['Consumer', 'Last hour', 'Done/min', 'Done/h', 'Failed/h', 'In hand', 'Waiting', 'Parked'],
  ...['Dead', 'Oldest waiting', 'Seen'],
]

export async function show(view) {
  const content = h('div')
  const refresh = async () => {
    const { isWhole, minutes, status } = await ask('status')
    replace(
      content,
      consumersTable(status, minutes),
      deadTable(status),
      unpublishedTable(status),
      sizes(status),
      bound(isWhole),
    )
  }
  await refresh()
  view.append(h('h2', {}, 'Consumers'), content)
  return refresh
}

function consumersTable({ consumers, nowMs }, minutes) {
  if (consumers.length === 0) return h('p', {}, 'No consumer has registered yet.')
  return table(
    'Consumers, live',
    HEAD,
    consumers.map((each) => row(each, { minutes, nowMs })),
  )
}

function row(consumer, { minutes, nowMs }) {
  const mine = minutes.filter(({ consumerId }) => consumerId === consumer.id)
  const dead = consumer.dead.reduce((sum, { count }) => sum + count, 0)
  const name = encodeURIComponent(consumer.name)
  const letters = `#/letters?consumer=${name}`
  return h(
    'tr',
    {},
    h('th', { scope: 'row' }, consumer.name),
    cell(plot(new Map(mine.map(({ age, count }) => [age, count])))),
    ...[consumer.doneMinute, consumer.doneHour, consumer.failedHour, consumer.inHand].map(number),
    ...[consumer.waiting, consumer.parked].map(number),
    h(
      'td',
      { class: 'number' },
      h(
        'a',
        {
          href: letters,
          'data-key': `dead ${consumer.name}`,
          'aria-label': `${dead} dead letters of ${consumer.name}`,
        },
        String(dead),
      ),
    ),
    cell(instant(consumer.oldestWaitingMs, nowMs)),
    cell(instant(consumer.seenAtMs, nowMs)),
  )
}

function deadTable({ consumers, nowMs }) {
  const dead = consumers.flatMap((consumer) => consumer.dead)
  if (dead.length === 0) return undefined
  const rows = dead.map(({ consumer, count, oldestMs, reason }) => {
    const query = new URLSearchParams({ consumer, reason })
    const link = h('a', { href: `#/letters?${query}`, 'data-key': `${consumer} ${reason}` }, reason)
    return h('tr', {}, cell(consumer), cell(link), number(count), cell(instant(oldestMs, nowMs)))
  })
  return table('Dead letters by reason', ['Consumer', 'Reason', 'Count', 'Oldest'], rows)
}

/** Dead letters that their dead-letter place has not taken yet. Usually empty. */
function unpublishedTable({ consumers, nowMs }) {
  const waiting = consumers.filter(({ unpublished }) => unpublished > 0)
  if (waiting.length === 0) return undefined
  const rows = waiting.map(({ name, oldestUnpublishedMs, unpublished }) =>
    h('tr', {}, cell(name), number(unpublished), cell(instant(oldestUnpublishedMs, nowMs))),
  )
  return table('Dead letters not published yet', ['Consumer', 'Count', 'Oldest'], rows)
}

function sizes({ leases, sweptAtMs, tables, nowMs }) {
  const rows = tables.map((each) =>
    h(
      'tr',
      {},
      cell(each.name),
      number(Math.round(each.rows)),
      number(each.bytes),
      number(each.deadRows),
    ),
  )
  const about = h(
    'p',
    { class: 'quiet' },
    'Swept ',
    instant(sweptAtMs, nowMs),
    leases === null ? '' : `, ${leases} running leases in PostgreSQL`,
  )
  return h('div', {}, table('Tables', ['Table', 'Rows, about', 'Bytes', 'Dead rows'], rows), about)
}

function bound(isWhole) {
  if (isWhole) return undefined
  const text = 'Done counts are a lower bound: the table is too large to be read whole.'
  return h('p', { class: 'warning' }, text)
}
