import { ask } from './ask.js'
import { actionBar, confirmChange, MESSAGES, titleOf } from './change.js'
import { errorBlock, facts, h } from './dom.js'
import { bytes, instant } from './units.js'

export async function show(view, { position = '' }, session) {
  const message = await ask('message', { position })
  const { shown } = message
  view.append(
    h(
      'div',
      { class: 'head' },
      h('h2', {}, `Message ${message.id}`),
      h('span', { class: 'badge' }, message.state),
      session.allowsChanges && message.isDead ? actions(message, session) : '',
    ),
    h(
      'div',
      { class: 'columns' },
      h(
        'div',
        {},
        message.error === null
          ? undefined
          : h(
              'section',
              { class: 'card' },
              h('h3', {}, 'Error'),
              errorBlock(message.error, 'error'),
            ),
        h(
          'section',
          { class: 'card' },
          h('h3', {}, 'Payload'),
          h(
            'pre',
            { tabindex: 0, id: 'body', role: 'region', 'aria-label': 'Payload' },
            shown.text,
          ),
          h('p', { class: 'quiet' }, `${bytes(message.bodyBytes)}, shown as ${shown.form}`),
          shown.note === undefined ? undefined : h('p', { class: 'warning' }, shown.note),
        ),
      ),
      h('aside', { class: 'card', 'aria-label': 'About it' }, about(message)),
    ),
  )
}

function about({
  attempts,
  createdAtMs,
  destination,
  dueAtMs,
  event,
  failedAtMs,
  headers,
  isDead,
  key,
  source,
  type,
}) {
  const now = Date.now()
  return [
    facts([
      ['Destination', destination],
      ['Key', key ?? '–'],
      ['Sent by', source],
      ['Event', event === null ? '–' : h('a', { href: `#/event?id=${event}` }, event)],
      ['Type', type],
      ['Attempts', String(attempts)],
      ['Sent', instant(createdAtMs, now)],
      ['Due', instant(dueAtMs, now)],
      [isDead ? 'Last failed' : 'First failed', instant(failedAtMs, now)],
    ]),
    h(
      'details',
      {},
      h('summary', {}, 'Headers'),
      facts(Object.entries(headers).map(([name, value]) => [name, value])),
    ),
  ]
}

function actions({ destination, position }, session) {
  const targets = [{ id: position, destination }]
  // The page stays: what was done stands above it.
  const run = (verb) => confirmChange({ verb, targets, session, what: MESSAGES })
  return actionBar((verb) => (verb === 'requeue' ? [] : [[titleOf(verb), undefined, run]]))
}
