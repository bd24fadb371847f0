import type { NextDelivery } from '../data/next-delivery.ts'
import type { Timeline } from '../data/timeline.ts'
import type { Output } from '../output.ts'
import { foldedStack } from './stack.ts'
import { duration, instant, relative } from './units.ts'
import { visible, visibleLines } from './visible.ts'

export function timelineText(
  { chapters, facts, next, state }: Timeline,
  { style }: Pick<Output, 'style'>,
): string {
  const { consumer, id, key, nowMs, registration, tenant, type } = facts
  const window =
    registration === undefined
      ? 'no guard of this consumer has ever started here with an inbox'
      : `dedup window ${duration(registration.dedupWindowMs)}, last registered ${relative(registration.seenAtMs, nowMs)}`
  const fields: readonly (readonly [string, string])[] = [
    ['event', id],
    ['key', key === '' ? '–' : key],
    ...(tenant === undefined ? [] : ([['tenant', tenant]] as const)),
    ...(type === undefined ? [] : ([['type', type]] as const)),
    ['consumer', `${consumer || '–'} (${window})`],
    ['state', state],
    ...redisField(facts),
  ]
  const lines = chapters.flatMap((chapter) => {
    const { atMs, detail, what } = chapter
    const line = `${instant(atMs)}  ${style('dim', relative(atMs, nowMs).padEnd(16))}  ${visible(what)}`
    const more =
      detail === undefined
        ? []
        : visibleLines(foldedStack(detail))
            .split('\n')
            .map((text) => `    ${text}`)
    return [line, ...more]
  })
  return [
    ...fields.map(([name, value]) => `${style('bold', name.padEnd(9))} ${visible(value)}`),
    '',
    ...(lines.length === 0 ? ['Nothing is recorded.'] : lines),
    '',
    `${style('bold', 'next delivery')}  ${nextText(next, nowMs)}`,
    `  ${next.why}`,
  ].join('\n')
}

function redisField({ lease, redis }: Timeline['facts']): readonly (readonly [string, string])[] {
  const forbidden =
    lease === 'forbidden' ? ([['leases', 'this login may not read the table']] as const) : []
  if (redis === undefined) return forbidden
  const mark = redis.isMarked ? ', remembered as done' : ''
  return [...forbidden, ['redis', `${redis.kind}${mark}`]]
}

function nextText({ attempt, kind, reason, untilMs }: NextDelivery, nowMs: number): string {
  switch (kind) {
    case 'run':
      return `runs as attempt ${attempt}`
    case 'ack':
      return `acked as ${reason}`
    case 'defer':
      return `deferred (${reason}), not before ${untilMs === undefined ? '–' : `${instant(untilMs)}, ${relative(untilMs, nowMs)}`}`
    case 'dead-letter':
      return `settled as dead-lettered (${reason})`
    default:
      return kind satisfies never
  }
}
