import { ask } from './ask.js'
import { facts, field, h, instant } from './dom.js'

export async function show(view, query) {
  view.append(h('h2', {}, 'Story of an event'), form(query))
  if (query.id === undefined && query.key === undefined) return
  view.append(story(await ask('event', query)))
}

function form(query) {
  const text = (name) => h('input', { name, value: query[name] ?? '', autocomplete: 'off' })
  return h(
    'form',
    {
      class: 'filter',
      role: 'search',
      submit: (event) => {
        event.preventDefault()
        const given = [...new FormData(event.target)].filter(([, value]) => value !== '')
        location.hash = `#/event?${new URLSearchParams(given)}`
      },
    },
    field('Key', text('key')),
    field('Consumer', text('consumer')),
    field('Tenant', text('tenant')),
    field('or event id', text('id')),
    h('button', {}, 'Show'),
  )
}

const TOLD = {
  run: ({ attempt }) => `runs as attempt ${attempt}`,
  ack: ({ reason }) => `acked as ${reason}`,
  defer: ({ reason }) => `deferred (${reason})`,
  'dead-letter': ({ reason }) => `settled as dead-lettered (${reason})`,
}

function story({ chapters, facts: known, next, state }) {
  const { consumer, id, key, nowMs, redis, tenant } = known
  const until = next.untilMs === undefined ? [] : [', not before ', instant(next.untilMs, nowMs)]
  return h(
    'section',
    {},
    facts([
      ['Event', id],
      ['Key', key === '' ? '–' : key],
      ...(tenant === undefined ? [] : [['Tenant', tenant]]),
      ['Consumer', consumer],
      ['State', state],
      ...(redis === undefined
        ? []
        : [['Redis', `${redis.kind}${redis.isMarked ? ', remembered as done' : ''}`]]),
      ['Next delivery', h('span', {}, TOLD[next.kind](next), ...until, `. ${next.why}`)],
    ]),
    h('h3', {}, 'What happened'),
    chapters.length === 0
      ? h('p', {}, 'Nothing is recorded.')
      : h(
          'ol',
          {},
          chapters.map((each) => chapter(each, nowMs)),
        ),
  )
}

function chapter({ atMs, detail, what }, nowMs) {
  const more =
    detail === undefined
      ? undefined
      : h('pre', { tabindex: 0, role: 'region', 'aria-label': 'Detail' }, detail)
  return h('li', {}, instant(atMs, nowMs), ` ${what}`, more)
}
