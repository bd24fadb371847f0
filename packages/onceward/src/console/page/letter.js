import { ask } from './ask.js'
import { confirmChange, titleOf, verbsOf } from './change.js'
import { facts, h, instant } from './dom.js'

export async function show(view, { id = '' }, session) {
  const letter = await ask('letter', { id })
  const { headers, properties, shown, source } = letter
  const now = Date.now()
  view.append(
    h('h2', {}, `Dead letter ${letter.key ?? '(no key)'}`),
    session.allowsChanges ? actions(letter, session) : '',
    facts([
      ['Id', id],
      ['Consumer', letter.consumer],
      ['Kind', letter.kind === 'event' ? 'buried event' : 'message that never became an event'],
      ...(letter.tenant === null ? [] : [['Tenant', letter.tenant]]),
      ['Reason', letter.reason],
      ['Attempts', String(letter.attempts)],
      ['First failed', instant(letter.firstFailedAtMs, now)],
      ['Last failed', instant(letter.lastFailedAtMs, now)],
      ['Published', letter.published ? 'yes' : 'no'],
      ...(letter.isRequeued ? [['Requeue', 'not confirmed; a copy may be in its queue']] : []),
      ['From', `${source.broker} ${source.queue} ${source.position ?? ''}`],
      ...Object.entries(properties).map(([name, value]) => [name, String(value)]),
      ...Object.entries(headers).map(([name, value]) => [`header ${name}`, String(value)]),
      ['Body', `${letter.bodyBytes.toLocaleString('en')} bytes, shown as ${shown.form}`],
    ]),
    ...(letter.kind === 'event'
      ? [h('p', {}, h('a', { href: `#/event?id=${id}` }, 'Story of this event'))]
      : []),
    h('h3', {}, 'Message'),
    h('pre', { tabindex: 0, id: 'body', role: 'region', 'aria-label': 'Message' }, shown.text),
    ...(shown.note === undefined ? [] : [h('p', { class: 'warning' }, shown.note)]),
    h('h3', {}, 'Error'),
    h(
      'pre',
      { tabindex: 0, id: 'error', role: 'region', 'aria-label': 'Error' },
      letter.error ?? '–',
    ),
  )
}

function actions(letter, session) {
  // The page stays: what was done stands above it, and what could not be done can be tried again.
  const run = (verb) => confirmChange({ verb, targets: [letter], session })
  return h(
    'div',
    { class: 'actions' },
    verbsOf(session).map((verb) =>
      h('button', { type: 'button', click: () => run(verb) }, titleOf(verb)),
    ),
  )
}
