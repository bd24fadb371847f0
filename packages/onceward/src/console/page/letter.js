import { ask } from './ask.js'
import { actionBar, confirmChange, titleOf } from './change.js'
import { errorBlock, facts, h } from './dom.js'
import { story } from './event.js'
import { bytes, instant } from './units.js'

export async function show(view, { id = '' }, session) {
  const letter = await ask('letter', { id })
  const told = letter.kind === 'event' ? await ask('event', { id }) : undefined
  const { shown } = letter
  view.append(
    h(
      'div',
      { class: 'head' },
      h('h2', {}, `Dead letter ${letter.key ?? '(no key)'}`),
      h('span', { class: 'badge dead-letters' }, letter.reason),
      session.allowsChanges ? actions(letter, session) : '',
    ),
    h(
      'div',
      { class: 'columns' },
      h(
        'div',
        {},
        h('section', { class: 'card' }, h('h3', {}, 'Error'), errorBlock(letter.error, 'error')),
        ...(told === undefined
          ? []
          : [h('section', { class: 'card' }, story(told, { isShort: true }))]),
        h(
          'section',
          { class: 'card' },
          h('h3', {}, 'Message'),
          h(
            'pre',
            { tabindex: 0, id: 'body', role: 'region', 'aria-label': 'Message' },
            shown.text,
          ),
          h(
            'p',
            { class: 'quiet' },
            `${letter.bodyBytes.toLocaleString('en')} bytes, shown as ${shown.form}`,
          ),
          ...(shown.note === undefined ? [] : [h('p', { class: 'warning' }, shown.note)]),
        ),
      ),
      h('aside', { class: 'card', 'aria-label': 'About it' }, about(letter, id)),
    ),
  )
}

function about(letter, id) {
  const { headers, properties, source } = letter
  const now = Date.now()
  return [
    facts([
      ['Consumer', letter.consumer],
      ['Kind', letter.kind === 'event' ? 'buried event' : 'message that never became an event'],
      ...(letter.tenant === null ? [] : [['Tenant', letter.tenant]]),
      ...(letter.type === undefined ? [] : [['Type', letter.type]]),
      ['Attempts', String(letter.attempts)],
      ['First failed', instant(letter.firstFailedAtMs, now)],
      ['Last failed', instant(letter.lastFailedAtMs, now)],
      ['Published', letter.published ? 'yes' : 'no'],
      ...(letter.isRequeued ? [['Requeue', 'not confirmed; a copy may be in its queue']] : []),
      ['From', `${source.broker} ${source.queue} ${source.position ?? ''}`],
      ['Size', bytes(letter.bodyBytes)],
      ['Id', id],
    ]),
    h(
      'details',
      {},
      h('summary', {}, 'Headers and properties'),
      facts([
        ...Object.entries(properties).map(([name, value]) => [name, String(value)]),
        ...Object.entries(headers).map(([name, value]) => [`header ${name}`, String(value)]),
      ]),
    ),
  ]
}

function actions(letter, session) {
  // The page stays: what was done stands above it, and what could not be done can be tried again.
  const run = (verb) => confirmChange({ verb, targets: [letter], session })
  // A message that is not stored cannot run from here; the part `Message` says where it is.
  const can = (verb) => verb === 'discard' || !letter.isOmitted
  return actionBar((verb) => [[titleOf(verb), undefined, can(verb) ? run : undefined]])
}
