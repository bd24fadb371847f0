import { ask } from './ask.js'
import { CONSUMERS, confirmChange, tell, titleOf } from './change.js'
import { cell, h, long, number, replace, table } from './dom.js'
import { doctorErrors } from './marks.js'
import { plot } from './plot.js'
import { clock, count, counted, duration, instant } from './units.js'

/** Worst first. `waiting` mends itself. */
const STATES = {
  'dependency-down': 'Dependency down',
  'no-worker': 'No worker',
  paused: 'Paused',
  'dead-letters': 'Dead letters',
  waiting: 'Waiting',
  healthy: 'Healthy',
}
const RANK = Object.keys(STATES)
const needsSomeone = (state) => state !== 'healthy' && state !== 'waiting'
const REDIS_EVERY_MS = 15_000

export async function show(view, _query, session) {
  const content = h('div')
  let last
  let redis = { askedAtMs: Number.NEGATIVE_INFINITY }
  const askRedis = async () => {
    if (!session.redis || performance.now() - redis.askedAtMs < REDIS_EVERY_MS) return
    redis = { ...redis, askedAtMs: performance.now() }
    const { down } = await ask('redis').catch(() => ({}))
    redis = { ...redis, down }
  }
  let act
  let errors = []
  const refresh = async () => {
    void askRedis()
    void doctorErrors().then(
      (found) => {
        errors = found
      },
      () => undefined,
    )
    try {
      last = await ask('status')
    } catch (error) {
      // The last figures stay, under what is wrong now.
      if (last !== undefined) draw(content, { ...last, act, down: error.message })
      throw error
    }
    draw(content, { ...last, act, redisDown: redis.down, doctor: errors })
  }
  if (session.allowsChanges) {
    act = async (verb, consumer) => {
      try {
        const targets = [{ id: consumer }]
        if (await confirmChange({ verb, targets, session, what: CONSUMERS })) await refresh()
      } catch (error) {
        tell(error.message)
      }
    }
  }
  await refresh()
  view.append(content)
  return refresh
}

/** From so many consumers on, a row for each says more than a tile. */
const DENSE_FROM = 12
const GONE_MS = 86_400_000

/** Without a worker for a day, and nothing of it waits or is dead: most likely it was taken away. */
function isGone({ dead, inHand, noWorkerSinceMs, parked, waiting }, nowMs) {
  const isIdle = inHand + parked + waiting + dead.length === 0
  return isIdle && noWorkerSinceMs !== null && nowMs - noWorkerSinceMs > GONE_MS
}

function draw(content, seen) {
  const { consumers, nowMs } = seen.status
  const gone = consumers.filter((each) => isGone(each, nowMs))
  const tiles = consumers
    .filter((each) => !gone.includes(each))
    .map((consumer) => tileOf(consumer, seen))
    .toSorted((one, other) => RANK.indexOf(one.state) - RANK.indexOf(other.state))
  replace(
    content,
    verdict(tiles, seen),
    tiles.length < DENSE_FROM
      ? h(
          'ul',
          { class: 'tiles' },
          tiles.map((tile) => tileElement(tile, seen)),
        )
      : denseTable(tiles, seen),
    gonePart(gone, seen, content),
    errorTable(seen),
    h('p', { class: 'quiet' }, FOOTNOTE, seen.isWhole ? '' : BOUND),
  )
}

function denseTable(tiles, { act, failed, status: { nowMs } }) {
  const rows = tiles.map(({ consumer, state, troubles }) => {
    const own = failed.filter(({ consumerId }) => consumerId === consumer.id)
    const [worst] = troubles
    return h(
      'tr',
      {},
      h('th', { scope: 'row' }, consumer.name),
      cell(badge(state)),
      long(worst === undefined ? '–' : troubleText(worst, { consumer, nowMs })),
      number(count(consumer.doneMinute)),
      number(count(consumer.doneHour)),
      number(count(own.reduce((sum, { count: n }) => sum + n, 0))),
      number(count(consumer.waiting + consumer.parked)),
      number(count(consumer.workers.length)),
      act === undefined ? undefined : cell(valveButton(consumer, act)),
    )
  })
  const head = [
    'Consumer',
    'State',
    'Why',
    'Per minute',
    'Last hour',
    'Failed',
    'Waiting',
    'Workers',
  ]
  return table('Consumers', act === undefined ? head : [...head, ''], rows)
}

function gonePart(gone, { act, status: { nowMs } }, content) {
  if (gone.length === 0) return undefined
  // A page that draws itself anew keeps open what is open.
  const isOpen = content.querySelector('.gone')?.open === true
  return h(
    'details',
    { class: 'gone', open: isOpen },
    h(
      'summary',
      {},
      `${counted(gone.length, 'consumer')} without a worker for a day, and nothing waits`,
    ),
    h(
      'ul',
      {},
      gone.map(({ name, noWorkerSinceMs }) =>
        h(
          'li',
          {},
          `${name}: last worker `,
          instant(noWorkerSinceMs, nowMs),
          ...(act === undefined ? [] : [' ', consumerButton('remove', name, act)]),
        ),
      ),
    ),
  )
}

const FOOTNOTE =
  'Failed counts each event once, at its last failure, and not if it has succeeded since.'
const BOUND = ' Commits are a lower bound: the table is too large to be read whole.'

function tileOf(consumer, { down, troubles }) {
  const found = troubles[consumer.name] ?? []
  const all = down === undefined ? found : [{ trouble: 'dependency-down' }, ...found]
  return { consumer, troubles: all, state: all[0]?.trouble ?? 'healthy' }
}

/** The answer to the first question of whoever opens the page. */
function verdict(tiles, { doctor = [], redisDown, status }) {
  const alerts = alertsOf(status, doctor)
  const ill = tiles.filter(({ state }) => needsSomeone(state)).length
  const retrying = tiles.filter(({ state }) => state === 'waiting').length
  const isFine = ill === 0 && redisDown === undefined && alerts.length === 0
  const title =
    status.consumers.length === 0
      ? 'No consumer has registered yet'
      : isFine
        ? 'Nothing is wrong'
        : ill === 0
          ? redisDown === undefined
            ? `${counted(alerts.length, 'thing')} ${alerts.length === 1 ? 'needs' : 'need'} you`
            : 'Redis is down'
          : `${ill} of ${tiles.length} consumers ${ill === 1 ? 'needs' : 'need'} you`
  const more = [
    redisDown,
    status.consumers.length === 0
      ? 'A consumer appears here when its guard has started.'
      : undefined,
    retrying > 0
      ? `${counted(retrying, 'consumer')} ${retrying === 1 ? 'retries' : 'retry'} by ${retrying === 1 ? 'itself' : 'themselves'}.`
      : undefined,
  ].filter((each) => each !== undefined)
  return h(
    'div',
    { class: `verdict ${isFine ? 'fine' : 'ill'}` },
    h('h2', {}, title),
    more.length === 0 ? undefined : h('p', {}, more.join(' ')),
    alerts.length === 0 ? undefined : h('ul', { class: 'alerts' }, alerts),
  )
}

/** What no tile says: messages that no relay takes, and the errors of the doctor. */
function alertsOf({ outbox }, doctor) {
  const item = (href, text) => h('li', {}, h('a', { href, 'data-key': text }, text))
  const unserved = (outbox ?? []).filter(({ isServed, waiting }) => !isServed && waiting > 0)
  return [
    ...unserved.map(({ destination, waiting: many }) =>
      item(
        `#/outbox?${new URLSearchParams({ destination })}`,
        `${counted(many, 'message')} of the outbox to ${destination} ${many === 1 ? 'waits' : 'wait'}, and no relay that runs has this destination.`,
      ),
    ),
    ...doctor.map(({ about, finding }) => item('#/findings', `${about}: ${finding}`)),
  ]
}

const badge = (state) => h('span', { class: `badge ${state}` }, STATES[state])

const PAGES = { 'dead-letters': 'letters', 'dependency-down': 'letters', waiting: 'waiting' }

function tileElement({ consumer, state, troubles }, { act, failed, minutes, status: { nowMs } }) {
  const own = (list) =>
    new Map(
      list
        .filter(({ consumerId }) => consumerId === consumer.id)
        .map(({ age, count: n }) => [age, n]),
    )
  const failedOwn = own(failed)
  const name = `tile-${consumer.id}`
  return h(
    'li',
    {},
    h(
      'article',
      { class: `tile ${state}`, 'aria-labelledby': name },
      h('header', {}, h('h3', { id: name }, consumer.name), badge(state)),
      h(
        'ul',
        { class: 'troubles' },
        troubles.length === 0
          ? h('li', {}, 'No failures wait, and nothing is dead.')
          : troubles.map((each) => troubleItem(each, { consumer, nowMs })),
      ),
      plot({ done: own(minutes), failed: failedOwn, nowMs }),
      figures([
        ['per minute', count(consumer.doneMinute)],
        ['last hour', count(consumer.doneHour)],
        ['failed', count([...failedOwn.values()].reduce((sum, each) => sum + each, 0))],
        ['running retries', count(consumer.inHand)],
        ['waiting', count(consumer.waiting + consumer.parked)],
        [
          'oldest waiting',
          consumer.oldestWaitingMs === null ? '–' : duration(nowMs - consumer.oldestWaitingMs),
        ],
      ]),
      h('p', { class: 'quiet' }, workersOf(consumer, nowMs)),
      act === undefined ? undefined : valveButton(consumer, act),
    ),
  )
}

const valveButton = ({ name, paused }, act) =>
  consumerButton(paused === null ? 'pause' : 'resume', name, act)

function consumerButton(verb, name, act) {
  const title = titleOf(verb)
  return h(
    'button',
    {
      ...{
        type: 'button',
        class: verb,
        'aria-label': `${title} ${name}`,
        'data-key': `button ${name}`,
      },
      click: () => void act(verb, name),
    },
    title,
  )
}

const PAUSERS = { operator: 'an operator', handler: 'its handler', guard: 'its guard' }

const SAID = {
  paused: ({ by, sinceMs, source, untilMs, why }) =>
    `Paused by ${by ?? PAUSERS[source]} since ${clock(sinceMs)}${untilMs === null ? '' : ` until ${clock(untilMs)}`}${why === null ? '' : `: ${why}`}.`,
  'dependency-down': ({ count: many, sinceMs }) =>
    many === undefined
      ? 'PostgreSQL does not answer: these are the last figures.'
      : `Its dead-letter queue or topic has not taken ${counted(many, 'dead letter')} since ${clock(sinceMs)}.`,
  'no-worker': ({ sinceMs }, nowMs) =>
    `No worker since ${clock(sinceMs)}, for ${duration(nowMs - sinceMs)}.`,
  'dead-letters': ({ count: many }) => `${counted(many, 'dead letter')}: replay or discard.`,
  waiting: ({ count: many, nextTryMs }, nowMs) =>
    `${counted(many, 'event')} ${many === 1 ? 'waits' : 'wait'}${nextTryMs === null ? '' : `, the next try is ${nextTryMs <= nowMs ? 'due' : `in ${duration(nextTryMs - nowMs)}`}`}.`,
}

const troubleItem = (each, about) => h('li', {}, troubleText(each, about))

/** With the way to the page that shows more. */
function troubleText(each, { consumer: { name }, nowMs }) {
  const { trouble } = each
  const text = SAID[trouble](each, nowMs)
  const page = PAGES[trouble]
  if (page === undefined) return text
  const href = `#/${page}?${new URLSearchParams({ consumer: name })}`
  return h('a', { href, 'data-key': `${trouble} ${name}` }, text)
}

const figures = (pairs) =>
  h(
    'dl',
    { class: 'figures' },
    pairs.map(([name, value]) => h('div', {}, h('dt', {}, name), h('dd', {}, value))),
  )

/** A Lambda function sends no heartbeats, so nothing is said of its workers. */
function workersOf({ noWorkerSinceMs, seenAtMs, workers }, nowMs) {
  if (workers.length > 0) {
    const names = workers.map(({ name }) => name).join(', ')
    return h('span', { title: names }, counted(workers.length, 'worker'))
  }
  return noWorkerSinceMs === null
    ? ['Last registered ', instant(seenAtMs, nowMs)]
    : ['Last worker ', instant(noWorkerSinceMs, nowMs)]
}

function errorTable({ errors, status: { nowMs } }) {
  if (errors.length === 0) return undefined
  const rows = errors.map(({ consumer, count: many, error, id, newestMs, oldestMs, reason }) => {
    const query = new URLSearchParams({ consumer, reason, error: id })
    const link = h(
      'a',
      { href: `#/letters?${query}`, 'data-key': `${consumer} ${reason} ${id}` },
      error,
    )
    return h(
      'tr',
      {},
      long(link),
      number(`× ${count(many)}`),
      cell(consumer),
      cell(reason),
      cell(instant(oldestMs, nowMs)),
      cell(instant(newestMs, nowMs)),
    )
  })
  return table(
    'Dead letters by error',
    ['Error', 'Count', 'Consumer', 'Reason', 'Oldest', 'Newest'],
    rows,
  )
}
