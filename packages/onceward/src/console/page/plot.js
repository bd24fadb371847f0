import { svg } from './dom.js'
import { clock, count } from './units.js'

const MINUTES = 60
const [WIDTH, HEIGHT, LEFT] = [360, 146, 38]
const STEP = (WIDTH - LEFT - 4) / MINUTES
const DONE = { top: 12, height: 66 }
const FAILED = { top: 102, height: 24 }

/** The largest number on an axis: 1, 2 or 5 with zeros. */
function niceMax(most) {
  const unit = 10 ** Math.floor(Math.log10(Math.max(1, most)))
  return [1, 2, 5, 10].map((factor) => factor * unit).find((each) => each >= most) ?? most
}

const series = (counts) =>
  Array.from({ length: MINUTES }, (_, at) => counts.get(MINUTES - 1 - at) ?? 0)
const sumOf = (values) => values.reduce((sum, each) => sum + each, 0)

function panel({ height, top }, { name, values }) {
  const most = niceMax(Math.max(...values))
  const base = top + height
  const barOf = (value, at) => {
    if (value === 0) return ''
    // One failure among many must be seen.
    const high = Math.max(1.5, (value / most) * height)
    const x = LEFT + at * STEP
    return `M${x.toFixed(1)} ${base}v${(-high).toFixed(1)}h${(STEP - 1).toFixed(1)}V${base}`
  }
  const ticks = height > 40 && most > 1 ? [0, most / 2, most] : [0, most]
  return [
    ...ticks.flatMap((tick) => {
      const y = base - (tick / most) * height
      return [
        svg('line', { class: 'grid', x1: LEFT, x2: WIDTH - 4, y1: y, y2: y }),
        svg('text', { x: LEFT - 5, y: y + 3.5, 'text-anchor': 'end' }, count(tick)),
      ]
    }),
    svg('path', { class: name, d: values.map(barOf).join('') }),
  ]
}

/**
 * Commits and failures of each minute of the last hour, oldest first, each with its own axis.
 *
 * @param done - By age in minutes.
 * @param failed - By age in minutes.
 */
export function plot({ done: doneCounts, failed: failedCounts, nowMs }) {
  const [done, failed] = [series(doneCounts), series(failedCounts)]
  const label = `Committed in the last hour: ${sumOf(done)}, at most ${Math.max(...done)} in a minute, ${done.at(-1)} in the last one. Failed: ${sumOf(failed)}.`
  const ends = [60, 40, 20, 0].map((age) =>
    svg(
      'text',
      {
        x: LEFT + (MINUTES - age) * STEP,
        y: HEIGHT - 4,
        'text-anchor': age === 60 ? 'start' : age === 0 ? 'end' : 'middle',
      },
      age === 0 ? 'now' : clock(nowMs - age * 60_000),
    ),
  )
  return svg(
    'svg',
    { class: 'plot', role: 'img', 'aria-label': label, viewBox: `0 0 ${WIDTH} ${HEIGHT}` },
    svg('title', {}, label),
    svg('text', { class: 'title', x: LEFT, y: DONE.top - 4 }, 'committed per minute'),
    panel(DONE, { name: 'done', values: done }),
    svg('text', { class: 'title', x: LEFT, y: FAILED.top - 4 }, 'failed per minute'),
    panel(FAILED, { name: 'failed', values: failed }),
    ends,
  )
}
