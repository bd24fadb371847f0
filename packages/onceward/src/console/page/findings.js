import { ask } from './ask.js'
import { h } from './dom.js'

/** The page that shows what a finding names. */
function linkOf({ about, consumer, see }) {
  const query = consumer === undefined ? '' : `?${new URLSearchParams({ consumer })}`
  if (see === 'dead-letters') return [`#/letters${query}`, 'Show the dead letters']
  if (see === 'outbox') return ['#/outbox', 'Show the outbox']
  if (see === 'waiting') return [`#/waiting${query}`, 'Show what waits']
  if (about === 'consumers') return ['#/', 'Show the consumer']
  if (about === 'tables') return ['#/tables', 'Show the tables']
  return undefined
}

export async function show(view) {
  const { findings } = await ask('findings')
  const items = findings.map((each) => {
    const { about, finding, remedy, severity } = each
    const [href, title] = linkOf(each) ?? []
    return h(
      'li',
      { class: `card finding ${severity}` },
      h('p', {}, h('span', { class: `badge ${severity}` }, severity), ` ${about}: ${finding}`),
      h('p', {}, '→ ', ...withCode(remedy)),
      href === undefined ? undefined : h('p', {}, h('a', { href }, title)),
    )
  })
  view.append(
    h('h2', {}, 'Findings of the doctor'),
    items.length === 0
      ? h('p', {}, 'Nothing was found. ', ...withCode(DEEPER))
      : h('ul', { class: 'cards' }, items),
  )
}

const DEEPER =
  'The command line also compares the queues with the guards: `npx onceward doctor --broker …`'

/** What stands between backticks is a command or a name. */
const withCode = (text) =>
  text.split('`').map((part, at) => (at % 2 === 1 ? h('code', {}, part) : part))
