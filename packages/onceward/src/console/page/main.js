import { ask, setToken, takeToken } from './ask.js'
import { tell } from './change.js'
import { field, h } from './dom.js'
import { show as event } from './event.js'
import { show as findings } from './findings.js'
import { show as letter } from './letter.js'
import { show as letters } from './letters.js'
import { refreshMarks } from './marks.js'
import { show as message } from './message.js'
import { show as outbox } from './outbox.js'
import { show as overview } from './overview.js'
import { show as tables } from './tables.js'
import { show as waiting } from './waiting.js'

const PAGES = { '': overview, waiting, letters, letter, outbox, message, event, findings, tables }
/** Pages of one thing, which are entered from the page of all. */
const PARENTS = { letter: 'letters', message: 'outbox' }
const EVERY_MS = 2_000

const view = document.getElementById('view')
const trouble = document.getElementById('trouble')
let session
let refresh
/** Counts navigations: an answer that comes after the next one is not shown. */
let turn = 0

function complain(error) {
  trouble.textContent = `${error.message} Trying again.`
  trouble.hidden = false
}

function recovered() {
  if (!trouble.hidden) trouble.hidden = true
}

async function navigate() {
  turn += 1
  const mine = turn
  refresh = undefined
  const [path = '', query = ''] = location.hash.replace(/^#\/?/, '').split('?')
  const show = Object.hasOwn(PAGES, path) ? PAGES[path] : overview
  mark(path)
  const page = h('div')
  try {
    session ??= await start()
    const next = await show(page, Object.fromEntries(new URLSearchParams(query)), session)
    if (mine !== turn) return
    refresh = next
    recovered()
  } catch (error) {
    if (mine !== turn) return
    if (error.status === 401) return askToken()
    if (isPassing(error)) {
      refresh = navigate
      complain(error)
    }
    page.append(h('p', { class: 'error' }, error.message))
  }
  put(page)
  void refreshMarks()
}

/** No connection to the database or to the console: both may come back. */
const isPassing = ({ status }) => status === 503 || status === 0

function put(page) {
  view.replaceChildren(page)
  const title = page.querySelector('h2')
  document.title = `${title?.textContent ?? 'onceward'} · onceward`
  // A screen reader reads the new heading, and the keyboard goes on from there.
  if (title !== null) {
    title.tabIndex = -1
    if (document.activeElement === document.body || view.contains(document.activeElement))
      title.focus()
  }
}

function mark(path) {
  const here = PARENTS[path] ?? path
  for (const link of document.querySelectorAll('nav a')) {
    if (link.getAttribute('href') === `#/${here}`) link.setAttribute('aria-current', 'page')
    else link.removeAttribute('aria-current')
  }
}

async function start() {
  const found = await ask('session')
  const mode = found.allowsChanges ? 'changes allowed' : 'read-only'
  const name = `${found.place}, schema ${found.schema}`
  document
    .getElementById('place')
    .replaceChildren(
      h('span', { class: 'name', title: name }, name),
      h('span', { class: 'badge' }, mode),
    )
  return found
}

function askToken() {
  const input = h('input', { type: 'password', name: 'token', required: true, autocomplete: 'off' })
  const form = h(
    'form',
    {
      class: 'filter',
      submit: (submitted) => {
        submitted.preventDefault()
        setToken(input.value)
        void navigate()
      },
    },
    field('Token', input),
    h('button', {}, 'Open'),
  )
  const note =
    'The token is missing or wrong. It stands in the address that `npx onceward console` printed.'
  put(h('div', {}, h('h2', {}, 'Token'), h('p', { class: 'error' }, note), form))
}

async function tick() {
  const mine = turn
  const startedAt = performance.now()
  try {
    if (refresh !== undefined && !document.hidden && !document.getElementById('confirm').open) {
      await refresh()
      if (mine === turn && refresh !== navigate) recovered()
      void refreshMarks()
    }
  } catch (error) {
    if (mine === turn) complain(error)
  }
  // Large tables are asked less often: a page that is open takes a sixth of a connection at most.
  const pauseMs = Math.max(EVERY_MS, 5 * (performance.now() - startedAt))
  setTimeout(() => void tick(), pauseMs)
}

addEventListener('hashchange', () => {
  tell('')
  void navigate()
})
document.querySelector('.skip').addEventListener('click', (event) => {
  // The part behind the # of the address names the page.
  event.preventDefault()
  view.focus()
})
takeToken()
void navigate()
setTimeout(() => void tick(), EVERY_MS)
