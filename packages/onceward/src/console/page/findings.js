import { ask } from './ask.js'
import { h } from './dom.js'

export async function show(view) {
  const { findings } = await ask('findings')
  const items = findings.map(({ about, finding, remedy, severity }) =>
    h(
      'li',
      {},
      h(
        'p',
        { class: severity },
        h('span', { class: 'severity' }, `${severity}: `),
        `${about}: ${finding}`,
        h('br'),
        `→ ${remedy}`,
      ),
    ),
  )
  view.append(
    h('h2', {}, 'Findings of the doctor'),
    items.length === 0 ? h('p', {}, 'Nothing was found.') : h('ul', {}, items),
  )
}
