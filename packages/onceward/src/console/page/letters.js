import { ask } from './ask.js'
import { actionBar, confirmChange, titleOf } from './change.js'
import { cell, choice, field, filterForm, h, long, number, replace, table } from './dom.js'
import { count, instant } from './units.js'

const REASONS = [
  ...['fatal', 'attempts-spent', 'no-verdict', 'invalid-payload', 'fingerprint-mismatch'],
  ...['missing-event-key', 'unknown-type', 'takeover', 'late-statement'],
]

const KINDS = { event: 'buried events', refused: 'refused messages' }

export async function show(view, query, session) {
  const content = h('div')
  let consumers = []
  const load = async () => {
    const found = await ask('letters', query)
    consumers = found.consumers
    replace(content, listOf(found, { query, session, reload: load }))
  }
  await load()
  view.append(h('h2', {}, 'Dead letters'), form(query, consumers), content)
}

const form = (query, consumers) =>
  filterForm(
    'letters',
    field('Consumer', choice('consumer', consumers, query.consumer)),
    field('Reason', choice('reason', REASONS, query.reason)),
    field('Kind', choice('kind', KINDS, query.kind)),
    field(
      'Key or error contains',
      h('input', { name: 'search', value: query.search ?? '', autocomplete: 'off' }),
    ),
    h('button', {}, 'Search'),
  )

function listOf({ counts, errors, letters }, { query, reload, session }) {
  const all = counts.reduce((sum, each) => sum + each.count, 0)
  if (all === 0) return [chosen(query, errors), nothing(query)]
  const boxes = letters.map((letter) => box(letter))
  const summary = counts.map((each) => `${each.consumer} ${each.reason}: ${each.count}`)
  const shown = letters.length < all ? `The oldest ${letters.length} of ${count(all)}. ` : ''
  return [
    chosen(query, errors),
    query.error === undefined ? groups(errors, { query, reload, session }) : undefined,
    h('h3', {}, 'One by one'),
    h('p', { class: 'quiet' }, `${shown}${summary.join(', ')}`),
    session.allowsChanges ? actions({ all, boxes, letters, query, session, reload }) : undefined,
    table(
      'Dead letters, oldest first',
      [...(session.allowsChanges ? [''] : []), ...HEAD],
      letters.map((each, at) => row(each, boxes[at], session)),
      'short',
    ),
  ]
}

/** What there is to do where nothing is shown. */
function nothing(query) {
  if (Object.keys(query).length > 0) {
    const all = h('a', { href: '#/letters' }, 'Show all')
    return h('p', {}, 'There are no dead letters that match. ', all)
  }
  const waiting = h('a', { href: '#/waiting' }, 'Show what waits for its next attempt')
  return h('p', {}, 'Nothing is dead. An event comes here after its last attempt. ', waiting)
}

const HEAD = ['Key', 'Consumer', 'Reason', 'Attempts', 'Last failed', 'Error']

const hashOf = (query) => `#/letters?${new URLSearchParams(query)}`

/** The group that is shown alone, and the way back to all. */
function chosen({ error, ...rest }, errors) {
  if (error === undefined) return undefined
  return h(
    'p',
    { class: 'chosen' },
    h('strong', {}, errors[0]?.error ?? 'These are gone.'),
    ' ',
    h('a', { href: hashOf(rest) }, 'All errors'),
  )
}

function groups(errors, context) {
  return h(
    'section',
    { 'aria-label': 'By error' },
    h('h3', {}, 'By error'),
    h(
      'ul',
      { class: 'cards' },
      errors.map((each) => group(each, context)),
    ),
  )
}

function group(each, { query, reload, session }) {
  const { consumer, count: many, error, id, newestMs, oldestMs, reason } = each
  const own = { ...query, consumer, reason, error: id }
  const now = Date.now()
  const act = async (verb) => {
    const targets = await ask('selected', own)
    if (targets.length > 0 && (await confirmChange({ verb, targets, session }))) await reload()
  }
  return h(
    'li',
    { class: 'card group' },
    h(
      'p',
      { class: 'what' },
      h('a', { href: hashOf(own), 'data-key': `${consumer} ${reason} ${id}` }, error),
      h('span', { class: 'times' }, ` × ${count(many)}`),
    ),
    h(
      'p',
      { class: 'quiet' },
      `${consumer}, ${reason}, `,
      ...(newestMs - oldestMs < 60_000 ? [] : [instant(oldestMs, now), ' to ']),
      instant(newestMs, now),
    ),
    session.allowsChanges
      ? actionBar((verb) => [
          [`${titleOf(verb)} ${count(many)}`, `${titleOf(verb)} ${many}: ${error}`, act],
        ])
      : undefined,
  )
}

const box = ({ id, key }) =>
  h('input', { type: 'checkbox', value: id, 'aria-label': `Select ${key ?? id}` })

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
  const every = h('input', {
    type: 'checkbox',
    change: ({ target }) => {
      for (const each of boxes) each.checked = target.checked
    },
  })
  return [
    h('label', { class: 'check' }, every, 'Select all that are shown'),
    actionBar((verb) => [
      [`${titleOf(verb)} selected`, undefined, () => run(verb, selected())],
      [
        `${titleOf(verb)} all ${all} that match`,
        undefined,
        async () => run(verb, await ask('selected', query)),
      ],
    ]),
  ]
}
