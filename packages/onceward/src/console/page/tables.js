import { ask } from './ask.js'
import { cell, h, number, replace, table } from './dom.js'
import { bytes, count, counted, instant } from './units.js'

/** What onceward keeps in PostgreSQL, for those who look after the database. */
export async function show(view) {
  const content = h('div')
  const refresh = async () => {
    const { leases, nowMs, sweptAtMs, tables, version } = (await ask('status')).status
    const rows = tables.map((each) =>
      h(
        'tr',
        {},
        cell(each.name),
        number(count(each.rows)),
        number(bytes(each.bytes)),
        number(count(each.deadRows)),
        cell(instant(each.vacuumedAtMs, nowMs)),
      ),
    )
    const about = h(
      'p',
      { class: 'quiet' },
      `Version ${version} of the tables. Swept `,
      instant(sweptAtMs, nowMs),
      leases === null ? '.' : `. ${counted(leases, 'running lease')} in PostgreSQL.`,
    )
    const head = ['Table', 'Rows, about', 'Size', 'Dead rows', 'Vacuumed']
    replace(content, about, table('Tables of onceward', head, rows))
  }
  await refresh()
  view.append(h('h2', {}, 'Tables'), content)
  return refresh
}
