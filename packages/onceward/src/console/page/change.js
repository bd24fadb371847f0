import { change } from './ask.js'
import { field, h, replace } from './dom.js'

/** The server takes so many ids at once. */
const MOST_IDS = 100
const NAME = 'onceward-name'
const DO = { replay: 'Replay', discard: 'Discard' }
const DID = { replay: 'will run again', discard: 'discarded' }
const WHY = {
  unknown: 'no such dead letter any more',
  done: 'its effect is committed',
  'not-dead': 'it waits or runs already',
  held: 'another process has it: try again in 15 s',
  'not-stored': 'its message was too large to store',
}

/** Asks with the counts of what would be changed, changes it, and says what was done. False if it was cancelled. */
export async function confirmChange({ verb, targets, session }) {
  const given = await askFor({ verb, targets, session })
  if (given === undefined) return false
  const result = { done: [], untouched: [] }
  try {
    for (let at = 0; at < targets.length; at += MOST_IDS) {
      const ids = targets.slice(at, at + MOST_IDS).map(({ id }) => id)
      const { done, untouched } = await change(verb, { ids, ...given })
      result.done.push(...done)
      result.untouched.push(...untouched)
      tell(`${result.done.length} of ${targets.length} ${DID[verb]} …`)
    }
    tell(textOf(verb, result))
  } catch (error) {
    tell(`${textOf(verb, result)} Then it failed: ${error.message}`)
  }
  return true
}

const noun = ({ length }) => (length === 1 ? 'dead letter' : 'dead letters')

function textOf(verb, { done, untouched }) {
  const left = untouched.map(({ id, why }) => ` ${id} was left as it is: ${WHY[why] ?? why}.`)
  const letters = noun(done)
  return `${done.length} ${letters} ${DID[verb]}.${left.join('')}`
}

export function tell(text) {
  document.getElementById('news').textContent = text
}

function countsOf(targets) {
  const counts = Map.groupBy(targets, ({ consumer, reason }) => `${consumer} ${reason}`)
  return [...counts].map(([name, group]) => h('li', {}, `${name}: ${group.length}`))
}

/** Resolves with name and reason, or with undefined when the operator cancels. */
function askFor({ verb, targets, session }) {
  const dialog = document.getElementById('confirm')
  const by = h('input', {
    name: 'by',
    autocomplete: 'off',
    value: sessionStorage.getItem(NAME) ?? session.by,
  })
  const why = h('input', { name: 'why', required: true, autocomplete: 'off', size: 40 })
  const isDiscard = verb === 'discard'
  const note = isDiscard
    ? 'Their messages are deleted. It cannot be undone.'
    : 'A running guard runs each of them, once. Nothing is sent to the queue.'
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
      h('ul', {}, countsOf(targets)),
      h('p', {}, note),
      field('Your name, for the audit (empty: the login)', by),
      isDiscard ? field('Why', why) : undefined,
      h(
        'div',
        { class: 'actions' },
        h('button', { type: 'submit' }, `${DO[verb]} ${targets.length}`),
        h('button', { type: 'button', click: () => dialog.close() }, 'Cancel'),
      ),
    )
    replace(
      dialog,
      h('h2', { id: 'confirm-title' }, `${DO[verb]} ${targets.length} ${noun(targets)}?`),
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
