import { change } from './ask.js'
import { field, h, replace } from './dom.js'

/** The server takes so many ids at once. */
const MOST_IDS = 100
const NAME = 'onceward-name'
const DO = {
  ...{ replay: 'Replay', requeue: 'Requeue', discard: 'Discard' },
  ...{ pause: 'Pause', resume: 'Resume', remove: 'Remove' },
}
const DID = { replay: 'will run again', requeue: 'sent back', discard: 'discarded' }
/** What is changed on the page of dead letters, and on that of the outbox. */
export const LETTERS = {
  noun: 'dead letter',
  question: (verb) => verb,
  groupOf: ({ consumer, reason }) => `${consumer} ${reason}`,
  did: DID,
}
export const MESSAGES = {
  noun: 'dead message',
  question: (verb) => `${verb}-messages`,
  groupOf: ({ destination }) => `to ${destination}`,
  did: { replay: 'will be published again', discard: 'discarded' },
}
/** What is changed on the first page. */
export const CONSUMERS = {
  noun: 'consumer',
  question: (verb) => verb,
  groupOf: ({ id }) => id,
  did: { pause: 'paused', resume: 'resumed', remove: 'removed' },
}
const WHY = {
  'no-dead-message': 'it is not dead any more: it was replayed, published or discarded',
  unknown: 'no such dead letter, or it was discarded',
  done: 'its effect is committed, so another run would repeat it: `npx onceward dead-letters rerun` takes events whose statement came too late',
  'not-dead': 'it waits or runs already',
  held: 'another process publishes, sends or changes it: try again in 30 s',
  'not-stored':
    "its message was too large to store: move it back from the broker's dead-letter place",
  'other-queue': 'it came from a queue that no --broker of the console names',
  'broker-key':
    'its event key is the id or the position that the broker gave it, so a copy would be another event: replay it',
  item: 'it is one item of a message, and its queue has whole messages: replay it',
  'not-sent': 'nothing was sent',
  running: 'a guard of it runs: stop it first',
  unfinished:
    'events of it wait or are dead: `npx onceward remove` with --leave-events leaves them stored',
  unconfirmed:
    'its copy may be in the queue. An event can be requeued again, because its copies run once; after a look into the queue, replay or discard a refused message',
}

/** Asks with the counts of what would be changed, changes it, and says what was done. False if it was cancelled. */
export async function confirmChange({ verb, targets, session, what = LETTERS }) {
  if (verb === 'requeue' && session.brokers.length === 0) return explainRequeue()
  const given = await askFor({ verb, targets, session, what })
  if (given === undefined) return false
  const result = { done: [], untouched: [] }
  try {
    for (let at = 0; at < targets.length; ) {
      const ids = targets.slice(at, at + MOST_IDS).map(({ id }) => id)
      const { done, untouched, failure } = await change(what.question(verb), { ids, ...given })
      result.done.push(...done)
      result.untouched.push(...untouched)
      if (failure !== undefined) throw new Error(failure)
      // An answer that takes long is of the first ones alone.
      at += done.length + untouched.length
      tell(`${result.done.length} of ${targets.length} ${what.did[verb]} …`)
    }
    tell(textOf({ verb, what }, result))
  } catch (error) {
    tell(`${textOf({ verb, what }, result)} Then it failed: ${error.message}`)
  }
  return true
}

const counted = ({ length }, { noun }) => `${length} ${noun}${length === 1 ? '' : 's'}`

function textOf({ verb, what }, { done, untouched }) {
  const left = untouched.map(({ error, id, why }) => {
    const said = error === undefined ? '' : ` (${error})`
    return ` ${id} was left as it is: ${WHY[why] ?? why}${said}.`
  })
  return `${counted(done, what)} ${what.did[verb]}.${left.join('')}`
}

const NOTES = {
  replay: () => 'A running guard runs each of them, once. Nothing is sent to the queue.',
  requeue: ({ brokers }) =>
    `Each message goes back to the queue that it came from (${brokers.join(', ')}). It is deleted here once the broker has confirmed it.`,
  pause: () =>
    'Its processes start no event until it is resumed. What runs goes on, and what was not started goes back to the broker.',
  resume: () => 'Its processes go on within two seconds.',
  remove: () =>
    'It is no longer shown. If it starts again it is shown again, and copies of its old events are duplicates as before.',
  discard: () => 'Their messages are deleted. It cannot be undone.',
  'replay-messages': () =>
    'A relay publishes each of them with its old id. Later messages of its key may have left before it.',
  'discard-messages': () => 'They are deleted and never published. It cannot be undone.',
}

/**
 * Buttons for what may be done with dead letters. What deletes them is red, and apart.
 *
 * @param buttonsOf - Titles, names for those who listen if they say more, and actions, by verb. Without an action a
 *   button cannot be pressed.
 */
export function actionBar(buttonsOf) {
  const buttons = (verb) =>
    buttonsOf(verb).map(([title, label, act]) =>
      h(
        'button',
        {
          ...{
            type: 'button',
            class: act === undefined ? `${verb} quiet` : verb,
            'aria-label': label,
          },
          disabled: act === undefined,
          click: () => void act(verb).catch((error) => tell(error.message)),
        },
        title,
      ),
    )
  return h(
    'div',
    { class: 'actions' },
    h('div', {}, buttons('replay'), buttons('requeue')),
    h('div', {}, buttons('discard')),
  )
}

const NO_BROKER =
  'Requeue sends a message back to the queue that it came from, and this console was started without a broker. End it, and start it again with the address:'
const COMMAND = "npx onceward console --allow-changes --broker 'amqp://host/vhost'"

/** The dialog says how requeue becomes possible. Nothing was changed. */
async function explainRequeue() {
  const dialog = document.getElementById('confirm')
  replace(
    dialog,
    h('h2', { id: 'confirm-title' }, 'Requeue needs a broker'),
    h('p', {}, NO_BROKER),
    h('pre', { tabindex: 0, role: 'region', 'aria-label': 'Command' }, COMMAND),
    h('p', {}, 'Kafka: kafka://host:9092. SQS: the URL of the queue. Replay needs no broker.'),
    h(
      'div',
      { class: 'actions' },
      h('button', { type: 'button', click: () => dialog.close() }, 'Close'),
    ),
  )
  dialog.showModal()
  return false
}

export const titleOf = (verb) => DO[verb]

export function tell(text) {
  document.getElementById('news').textContent = text
}

function countsOf(targets, { groupOf }) {
  const counts = Map.groupBy(targets, groupOf)
  return [...counts].map(([name, group]) => h('li', {}, `${name}: ${group.length}`))
}

/** Resolves with name and reason, or with undefined when the operator cancels. */
function askFor({ verb, targets, session, what }) {
  const dialog = document.getElementById('confirm')
  const by = h('input', {
    name: 'by',
    autocomplete: 'off',
    value: sessionStorage.getItem(NAME) ?? session.by,
  })
  const why = h('input', { name: 'why', required: true, autocomplete: 'off', size: 40 })
  const needsReason = verb === 'discard' || verb === 'pause'
  const note = NOTES[what.question(verb)](session)
  return new Promise((resolve) => {
    let given
    const form = h(
      'form',
      {
        submit: (event) => {
          event.preventDefault()
          sessionStorage.setItem(NAME, by.value)
          given = { by: by.value, why: why.value }
          dialog.close()
        },
      },
      h('ul', {}, countsOf(targets, what)),
      h('p', {}, note),
      field('Your name, for the audit (empty: the login)', by),
      needsReason ? field('Why', why) : undefined,
      h(
        'div',
        { class: 'actions' },
        h('button', { type: 'submit', class: verb }, `${DO[verb]} ${targets.length}`),
        h('button', { type: 'button', click: () => dialog.close() }, 'Cancel'),
      ),
    )
    replace(
      dialog,
      h('h2', { id: 'confirm-title' }, `${DO[verb]} ${counted(targets, what)}?`),
      form,
    )
    // The event comes some time after the end, and then the dialog may be open again for another question.
    const ended = () => {
      if (dialog.open) return
      dialog.removeEventListener('close', ended)
      resolve(given)
    }
    dialog.addEventListener('close', ended)
    dialog.showModal()
  })
}
