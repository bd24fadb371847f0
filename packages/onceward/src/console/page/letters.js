import { ask } from './ask.js'
import { confirmChange, titleOf, verbsOf } from './change.js'
import { cell, field, h, instant, long, number, replace, table } from './dom.js'

const REASONS = [
  ...['fatal', 'attempts-spent', 'no-verdict', 'invalid-payload', 'fingerprint-mismatch'],
  ...['missing-event-key', 'takeover'],
]

const KINDS = { event: 'buried events', refused: 'refused messages' }

export async function show(view, query, session) {
  const content = h('div')
  const load = async () => replace(content, await listOf(query, session, load))
  await load()
  view.append(h('h2', {}, 'Dead letters'), filterForm(query), content)
}

function filterForm(query) {
  const text = (name) => h('input', { name, value: query[name] ?? '', autocomplete: 'off' })
  const reason = h(
    'select',
    { name: 'reason' },
    h('option', { value: '' }, 'any'),
    REASONS.map((each) => h('option', { value: each, selected: each === query.reason }, each)),
  )
  const kind = h(
    'select',
    { name: 'kind' },
    h('option', { value: '' }, 'any'),
    Object.entries(KINDS).map(([each, title]) =>
      h('option', { value: each, selected: each === query.kind }, title),
    ),
  )
  return h(
    'form',
    {
      class: 'filter',
      role: 'search',
      submit: (event) => {
        event.preventDefault()
        const given = [...new FormData(event.target)].filter(([, value]) => value !== '')
        const hash = `#/letters?${new URLSearchParams(given)}`
        if (location.hash === hash) dispatchEvent(new HashChangeEvent('hashchange'))
        else location.hash = hash
      },
    },
    field('Consumer', text('consumer')),
    field('Reason', reason),
    field('Kind', kind),
    field('Key or error contains', text('search')),
    h('button', {}, 'Search'),
  )
}

async function listOf(query, session, reload) {
  const { counts, letters } = await ask('letters', query)
  const all = counts.reduce((sum, { count }) => sum + count, 0)
  if (all === 0) return [h('p', {}, 'There are no dead letters that match.')]
  const boxes = letters.map((letter) => box(letter))
  const summary = counts.map(({ consumer, count, reason }) => `${consumer} ${reason}: ${count}`)
  const shown = letters.length < all ? `The oldest ${letters.length} of ${all}. ` : ''
  return [
    h('p', {}, `${shown}${summary.join(', ')}`),
    session.allowsChanges ? actions({ all, boxes, letters, query, session, reload }) : undefined,
    table(
      'Dead letters, oldest first',
      head(boxes, session),
      letters.map((each, at) => row(each, boxes[at], session)),
    ),
  ]
}

const box = ({ id, key }) =>
  h('input', { type: 'checkbox', value: id, 'aria-label': `Select ${key ?? id}` })

function head(boxes, session) {
  const every = h('input', {
    type: 'checkbox',
    'aria-label': 'Select all that are shown',
    change: ({ target }) => {
      for (const each of boxes) each.checked = target.checked
    },
  })
  const titles = ['Key', 'Consumer', 'Reason', 'Attempts', 'Last failed', 'Error']
  return session.allowsChanges ? [every, ...titles] : titles
}

function row(letter, checkbox, session) {
  const link = h('a', { href: `#/letter?id=${letter.id}` }, letter.key ?? '(no key)')
  return h(
    'tr',
    {},
    session.allowsChanges ? cell(checkbox) : undefined,
    long(link),
    cell(letter.consumer),
    cell(`${letter.reason}${letter.isRequeued ? ' (requeue not confirmed)' : ''}`),
    number(letter.attempts),
    cell(instant(letter.lastFailedAtMs, Date.now())),
    long((letter.error ?? '–').split('\n', 1)[0]),
  )
}

function actions({ all, boxes, letters, query, session, reload }) {
  const selected = () => letters.filter((_, at) => boxes[at].checked)
  const run = async (verb, targets) => {
    if (targets.length === 0) return
    if (await confirmChange({ verb, targets, session })) await reload()
  }
  const verbs = verbsOf(session)
  const button = (title, act) => h('button', { type: 'button', click: act }, title)
  return h(
    'div',
    { class: 'actions' },
    verbs.map((verb) => button(`${titleOf(verb)} selected`, () => run(verb, selected()))),
    verbs.map((verb) =>
      button(`${titleOf(verb)} all ${all} that match`, async () =>
        run(verb, await ask('selected', query)),
      ),
    ),
  )
}
