import { svg } from './dom.js'

const MINUTES = 60
const HEIGHT = 40

/** One bar per minute of the last hour, oldest first. @param counts - By age in minutes. */
export function plot(counts) {
  const bars = Array.from({ length: MINUTES }, (_, at) => counts.get(MINUTES - 1 - at) ?? 0)
  const most = Math.max(...bars)
  const sum = bars.reduce((all, each) => all + each, 0)
  const label = `Committed in the last hour: ${sum}, at most ${most} in a minute, ${bars.at(-1)} in the last one`
  return svg(
    'svg',
    {
      ...{ class: 'plot', role: 'img', 'aria-label': label },
      ...{ viewBox: `0 0 ${MINUTES * 4} ${HEIGHT}`, preserveAspectRatio: 'none' },
    },
    svg('title', {}, label),
    bars.map((count, at) => {
      const height = most === 0 ? 0 : (count / most) * HEIGHT
      return svg('rect', { x: at * 4, y: HEIGHT - height, width: 3, height })
    }),
  )
}
