import { ask } from './ask.js'
import { cell, choice, field, filterForm, h, long, number, replace, table } from './dom.js'
import { instant } from './units.js'

const NOTE =
  'The first run of a new event is counted nowhere, so it is not in this list. Each list shows at most 100.'

export async function show(view, query) {
  const content = h('div')
  let consumers = []
  const refresh = async () => {
    const { inHand, nowMs, parked, waiting, ...rest } = await ask('waiting', query)
    consumers = rest.consumers
    const isEmpty = inHand.length + parked.length + waiting.length === 0
    const letters = h('a', { href: '#/letters' }, 'Show the dead letters')
    if (isEmpty) return replace(content, h('p', {}, 'Nothing waits for another attempt. ', letters))
    replace(
      content,
      part('Running retries', inHand, { nowMs, title: 'Since', at: 'countedAtMs' }),
      part('Waiting at the broker', waiting, { nowMs, title: 'Next try', at: 'nextTryMs' }),
      part('Parked in PostgreSQL', parked, { nowMs, title: 'Next try', at: 'nextTryMs' }),
    )
  }
  await refresh()
  const form = filterForm(
    'waiting',
    field('Consumer', choice('consumer', consumers, query.consumer)),
    h('button', {}, 'Show'),
  )
  view.append(h('h2', {}, 'Waiting'), h('p', { class: 'quiet' }, NOTE), form, content)
  return refresh
}

function part(title, events, { at, nowMs, title: column }) {
  if (events.length === 0) return h('p', {}, `${title}: none.`)
  const rows = events.map((event) =>
    h(
      'tr',
      {},
      cell(event.consumer),
      long(h('a', { href: `#/event?id=${event.id}`, 'data-key': event.id }, event.key)),
      number(event.attempt),
      cell(instant(event[at], nowMs)),
      long(event.error ?? '–'),
    ),
  )
  return table(title, ['Consumer', 'Key', 'Attempts', column, 'Last error'], rows)
}
