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
  element.append(...children.flat().filter((child) => child !== undefined))
  return element
}

/** Replaces the content, and keeps the keyboard where it was: on the element with the same `data-key`. */
export function replace(element, ...children) {
  const active = document.activeElement
  const key = element.contains(active) ? active?.dataset?.key : undefined
  element.replaceChildren(...children.flat().filter((child) => child !== undefined))
  if (key === undefined) return
  for (const each of element.querySelectorAll('[data-key]')) {
    if (each.dataset.key === key) each.focus()
  }
}

/** A table that may be scrolled sideways, also with the keyboard. */
export function table(caption, head, rows) {
  return h(
    'div',
    { class: 'scroll', tabindex: 0, role: 'region', 'aria-label': caption },
    h(
      'table',
      {},
      h('caption', {}, caption),
      h(
        'thead',
        {},
        h(
          'tr',
          {},
          head.map((title, at) => headCell(title, rows[0]?.children[at])),
        ),
      ),
      h('tbody', {}, rows),
    ),
  )
}

/** Stands over its column as the cells of the column do. */
const headCell = (title, below) =>
  typeof title === 'string'
    ? h('th', { scope: 'col', class: below?.className || undefined }, title)
    : h('td', {}, title)

export const cell = (...children) => h('td', {}, ...children)
export const number = (value) => h('td', { class: 'number' }, Number(value).toLocaleString('en'))
export const long = (value) => h('td', { class: 'text' }, value)

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

const UNITS = [
  ['d', 86_400_000],
  ['h', 3_600_000],
  ['min', 60_000],
  ['s', 1_000],
]

export function duration(ms) {
  const whole = Math.max(0, ms)
  const at = UNITS.findIndex(([, unit]) => whole >= unit)
  if (at === -1) return `${Math.round(whole)} ms`
  const [name, unit] = UNITS[at]
  const [nextName, next] = UNITS[at + 1] ?? ['', 0]
  const count = Math.floor(whole / unit)
  const rest = next === 0 ? 0 : Math.floor((whole - count * unit) / next)
  return rest === 0 ? `${count} ${name}` : `${count} ${name} ${rest} ${nextName}`
}

/** An instant as `3 min ago` or `in 20 s`, with the exact time beside it for those who hover or listen. */
export function instant(ms, nowMs) {
  if (ms === null || ms === undefined) return '–'
  const text = ms <= nowMs ? `${duration(nowMs - ms)} ago` : `in ${duration(ms - nowMs)}`
  const iso = new Date(ms).toISOString()
  return h('time', { datetime: iso, title: iso }, text)
}
