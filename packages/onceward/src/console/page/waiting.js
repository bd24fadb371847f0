import { ask } from './ask.js'
import { cell, h, instant, long, number, replace, table } from './dom.js'

export async function show(view) {
  const content = h('div')
  const refresh = async () => {
    const { inHand, nowMs, parked, waiting } = await ask('waiting')
    replace(
      content,
      part('In hand', inHand, { nowMs, title: 'Since', at: 'countedAtMs' }),
      part('Waiting at the broker', waiting, { nowMs, title: 'Next try', at: 'nextTryMs' }),
      part('Parked in PostgreSQL', parked, { nowMs, title: 'Next try', at: 'nextTryMs' }),
    )
  }
  await refresh()
  const note =
    'The first run of a new event is counted nowhere, so it is not in this list. Each list shows at most 100.'
  view.append(h('h2', {}, 'Waiting'), h('p', { class: 'quiet' }, note), content)
  return refresh
}

function part(title, events, { at, nowMs, title: column }) {
  if (events.length === 0) return h('p', {}, `${title}: none.`)
  const rows = events.map((event) =>
    h(
      'tr',
      {},
      cell(event.consumer),
      cell(h('a', { href: `#/event?id=${event.id}`, 'data-key': event.id }, event.key)),
      number(event.attempt),
      cell(instant(event[at], nowMs)),
      long(event.error ?? '–'),
    ),
  )
  return table(title, ['Consumer', 'Key', 'Attempts', column, 'Last error'], rows)
}
