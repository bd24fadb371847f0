import { ask } from './ask.js'
import { actionBar, confirmChange, MESSAGES, titleOf } from './change.js'
import { cell, choice, field, filterForm, h, long, number, replace, table } from './dom.js'
import { count, instant } from './units.js'

export async function show(view, query, session) {
  const content = h('div')
  let destinations = []
  const load = async () => {
    const found = await ask('outbox', query)
    destinations = found.destinations ?? []
    replace(content, parts(found, { query, session, reload: load }))
  }
  await load()
  const form = filterForm(
    'outbox',
    field(
      'Destination',
      choice(
        'destination',
        destinations.map(({ destination }) => destination),
        query.destination,
      ),
    ),
    h('button', {}, 'Show'),
  )
  view.append(h('h2', {}, 'Outbox'), form, content)
  // A selection would be lost. Without the right to change there is none.
  return session.allowsChanges ? undefined : load
}

function parts({ dead, destinations, keys }, context) {
  if (destinations === null) return h('p', {}, 'This login may not read the outbox.')
  const { destination } = context.query
  const nowMs = Date.now()
  const shown = destinations.filter(
    (each) => (destination ?? each.destination) === each.destination,
  )
  if (shown.length === 0)
    return h('p', {}, 'No message waits, and none is dead. A message that has left is deleted.')
  return [
    byDestination(shown, nowMs),
    keys.length === 0 ? undefined : byKey(keys, nowMs),
    h('h3', {}, 'Dead messages'),
    deadPart(dead, { ...context, nowMs, all: shown.reduce((sum, each) => sum + each.dead, 0) }),
  ]
}

function byDestination(destinations, nowMs) {
  const rows = destinations.map((each) =>
    h(
      'tr',
      {},
      long(each.destination),
      [each.waiting, each.delayed, each.refused, each.dead].map((value) => number(count(value))),
      cell(instant(each.oldestWaitingMs, nowMs)),
      cell(each.isServed ? 'runs' : h('span', { class: 'badge warning' }, 'none')),
    ),
  )
  const head = ['Destination', 'Waiting', 'Delayed', 'Refused', 'Dead', 'Oldest waiting', 'Relay']
  return table('By destination', head, rows)
}

/** At most 100 of them. */
function byKey(keys, nowMs) {
  const rows = keys.map((each) =>
    h(
      'tr',
      {},
      long(each.destination),
      long(each.key ?? '(no key)'),
      number(count(each.messages)),
      number(each.attempts),
      cell(instant(each.oldestMs, nowMs)),
      cell(instant(each.nextTryMs, nowMs)),
      long((each.error ?? '–').split('\n', 1)[0]),
    ),
  )
  const head = ['Destination', 'Key', 'Messages', 'Attempts', 'Oldest', 'Next try', 'Last error']
  return table('Keys whose first message was refused', head, rows)
}

function deadPart(dead, context) {
  const { all, nowMs, session } = context
  if (all === 0) return h('p', {}, 'No message is dead.')
  const boxes = dead.map(({ id, position }) =>
    h('input', { type: 'checkbox', value: position, 'aria-label': `Select ${id}` }),
  )
  const rows = dead.map((each, at) =>
    h(
      'tr',
      {},
      session.allowsChanges ? cell(boxes[at]) : undefined,
      long(
        h('a', { href: `#/message?position=${each.position}`, 'data-key': each.position }, each.id),
      ),
      long(each.destination),
      long(each.key ?? '(no key)'),
      number(each.attempts),
      cell(instant(each.failedAtMs, nowMs)),
      long((each.error ?? '–').split('\n', 1)[0]),
    ),
  )
  const head = ['Id', 'Destination', 'Key', 'Attempts', 'Last failed', 'Error']
  return [
    dead.length < all
      ? h('p', { class: 'quiet' }, `The oldest ${dead.length} of ${count(all)}.`)
      : undefined,
    session.allowsChanges ? actions({ ...context, dead, boxes }) : undefined,
    table('Dead messages, oldest first', [...(session.allowsChanges ? [''] : []), ...head], rows),
  ]
}

function actions({ all, boxes, dead, query, reload, session }) {
  const run = async (verb, found) => {
    const targets = found.map(({ destination, position }) => ({ id: position, destination }))
    if (targets.length === 0) return
    if (await confirmChange({ verb, targets, session, what: MESSAGES })) await reload()
  }
  return actionBar((verb) =>
    verb === 'requeue'
      ? []
      : [
          [
            `${titleOf(verb)} selected`,
            undefined,
            () =>
              run(
                verb,
                dead.filter((_, at) => boxes[at].checked),
              ),
          ],
          [
            `${titleOf(verb)} all ${all} that match`,
            undefined,
            async () => run(verb, await ask('selected-messages', query)),
          ],
        ],
  )
}
