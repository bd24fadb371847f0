import { ask } from './ask.js'
import { choice, errorBlock, facts, field, filterForm, h } from './dom.js'
import { instant } from './units.js'

export async function show(view, query) {
  const { consumers } = await ask('consumers')
  view.append(h('h2', {}, 'Story of an event'), ...form(query, consumers))
  if (query.id === undefined && query.key === undefined) return
  view.append(h('section', { class: 'card' }, story(await ask('event', query))))
}

const NOTE =
  'The key is what `eventKey` of the guard returns. The id is `eventId` in a line of the log.'

function form(query, consumers) {
  const text = (name, size) =>
    h('input', { name, value: query[name] ?? '', autocomplete: 'off', size })
  // With one consumer there is nothing to choose.
  const chosen = query.consumer ?? (consumers.length === 1 ? consumers[0] : undefined)
  return [
    h(
      'p',
      { class: 'quiet' },
      NOTE.split('`').map((part, at) => (at % 2 === 1 ? h('code', {}, part) : part)),
    ),
    filterForm(
      'event',
      field('Consumer', choice('consumer', consumers, chosen, 'choose …')),
      field('Key', text('key', 28)),
      field('Tenant, if it has one', text('tenant', 14)),
      h('button', {}, 'Show'),
    ),
    filterForm('event', field('Or the event id', text('id', 38)), h('button', {}, 'Show by id')),
  ]
}

const TOLD = {
  run: ({ attempt }) => `runs as attempt ${attempt}`,
  ack: ({ reason }) => `acked as ${reason}`,
  defer: ({ reason }) => `deferred (${reason})`,
  'dead-letter': ({ reason }) => `settled as dead-lettered (${reason})`,
}

/** @param isShort - Beside its dead letter, which shows the rest. */
export function story({ chapters, facts: known, next, state }, { isShort = false } = {}) {
  const { consumer, id, key, nowMs, redis, tenant, type } = known
  const until = next.untilMs === undefined ? [] : [', not before ', instant(next.untilMs, nowMs)]
  const about = [
    ['Event', id],
    ['Key', key === '' ? '–' : key],
    ...(tenant === undefined ? [] : [['Tenant', tenant]]),
    ...(type === undefined ? [] : [['Type', type]]),
    ['Consumer', consumer],
    ['State', state],
    ...(redis === undefined
      ? []
      : [['Redis', `${redis.kind}${redis.isMarked ? ', remembered as done' : ''}`]]),
  ]
  const entries = chapters.map((each) => chapter(each, { nowMs, isShort }))
  return [
    isShort ? undefined : facts(about),
    h('h3', {}, 'What happened'),
    chapters.length === 0 && h('p', {}, 'Nothing is recorded.'),
    h(
      'ol',
      { class: 'story' },
      entries,
      h(
        'li',
        { class: 'next' },
        h('strong', {}, 'Next delivery: '),
        TOLD[next.kind](next),
        ...until,
        `. ${next.why}`,
      ),
    ),
  ].filter(Boolean)
}

function chapter({ atMs, detail, what }, { isShort, nowMs }) {
  const [first] = (detail ?? '').split('\n', 1)
  const more =
    detail === undefined
      ? undefined
      : isShort
        ? h('p', { class: 'quiet' }, first)
        : errorBlock(detail)
  return h('li', {}, instant(atMs, nowMs), ` ${what}`, more)
}
