// Elements from data. Texts become text nodes: nothing that comes from the server is ever read as HTML.

const SVG = 'http://www.w3.org/2000/svg'

/** `attributes` are set as text, `on…` functions as listeners, `true` as an empty attribute. */
export function h(name, attributes = {}, ...children) {
  return fill(document.createElement(name), attributes, children)
}

export function svg(name, attributes = {}, ...children) {
  return fill(document.createElementNS(SVG, name), attributes, children)
}

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === undefined || value === false) continue
    if (typeof value === 'function') element.addEventListener(name, value)
    else element.setAttribute(name, value === true ? '' : String(value))
  }
  element.append(...children.flat(Number.POSITIVE_INFINITY).filter((child) => child !== undefined))
  return element
}

/** Replaces the content, and keeps the keyboard where it was: on the element with the same `data-key`. */
export function replace(element, ...children) {
  const active = document.activeElement
  const key = element.contains(active) ? active?.dataset?.key : undefined
  element.replaceChildren(
    ...children.flat(Number.POSITIVE_INFINITY).filter((child) => child !== undefined),
  )
  if (key === undefined) return
  for (const each of element.querySelectorAll('[data-key]')) {
    if (each.dataset.key === key) each.focus()
  }
}

/**
 * A table. On a narrow screen each row is a card of its own, whose cells carry the title of their column. The roles say
 * what it is also then, because browsers take a table that is laid out otherwise for none.
 */
export function table(caption, head, rows, look) {
  for (const row of rows) {
    row.setAttribute('role', 'row')
    for (const [at, each] of [...row.children].entries()) {
      if (each.tagName === 'TH') each.setAttribute('role', 'rowheader')
      else each.setAttribute('role', 'cell')
      each.dataset.label = head[at]
    }
  }
  const titles = head.map((title, at) => {
    // Stands over its column as the cells of the column do.
    const below = rows[0]?.children[at]?.className || undefined
    return title === ''
      ? h('td', { role: 'cell' })
      : h('th', { scope: 'col', role: 'columnheader', class: below }, title)
  })
  return h(
    'div',
    {
      class: look === undefined ? 'scroll' : `scroll ${look}`,
      tabindex: 0,
      role: 'region',
      'aria-label': caption,
    },
    h(
      'table',
      { role: 'table' },
      h('caption', {}, caption),
      h('thead', { role: 'rowgroup' }, h('tr', { role: 'row' }, titles)),
      h('tbody', { role: 'rowgroup' }, rows),
    ),
  )
}

export const cell = (...children) => h('td', {}, ...children)
export const number = (value) => h('td', { class: 'number' }, value)
export const long = (...children) => h('td', { class: 'text' }, ...children)

/** Names and values. */
export function facts(pairs) {
  return h(
    'dl',
    {},
    pairs.flatMap(([name, value]) => [h('dt', {}, name), h('dd', {}, value)]),
  )
}

export function field(label, input) {
  return h('label', {}, label, input)
}

/** A list to choose from; `options` are values, or values with their titles. `first` is no choice. */
export function choice(name, options, chosen, first = 'all') {
  const items = Array.isArray(options)
    ? options.map((each) => [each, each])
    : Object.entries(options)
  const known = chosen === undefined || items.some(([value]) => value === chosen)
  return h(
    'select',
    { name },
    h('option', { value: '' }, first),
    [...items, ...(known ? [] : [[chosen, chosen]])].map(([value, title]) =>
      h('option', { value, selected: value === chosen }, title),
    ),
  )
}

/** A form whose fields become the query of a page. */
export function filterForm(page, ...children) {
  const submit = (event) => {
    event.preventDefault()
    const given = [...new FormData(event.target)].filter(([, value]) => value !== '')
    const hash = `#/${page}?${new URLSearchParams(given)}`
    if (location.hash === hash) dispatchEvent(new HashChangeEvent('hashchange'))
    else location.hash = hash
  }
  return h('form', { class: 'filter', role: 'search', submit }, ...children)
}

const FRAME = /^\s+at /

/** An error with its message, the place in the user's code, and the whole stack folded. */
export function errorBlock(text, id) {
  const lines = (text ?? 'No error was recorded.').split('\n')
  const from = lines.findIndex((line) => FRAME.test(line))
  const message = lines.slice(0, from === -1 ? lines.length : from).join('\n')
  const stack = from === -1 ? [] : lines.slice(from)
  const own = stack.find(
    (line) => FRAME.test(line) && !/node_modules|\bnode:|<anonymous>/.test(line),
  )
  const frames = stack.filter((line) => FRAME.test(line)).length
  return h(
    'div',
    { class: 'error-block', id },
    h('pre', { tabindex: 0, role: 'region', 'aria-label': 'Error' }, message),
    own === undefined ? undefined : h('p', { class: 'quiet frame' }, own.trim()),
    frames === 0
      ? undefined
      : h(
          'details',
          {},
          h('summary', {}, `Stack: ${frames} ${frames === 1 ? 'frame' : 'frames'}`),
          h('pre', { tabindex: 0, role: 'region', 'aria-label': 'Stack' }, stack.join('\n')),
        ),
  )
}
