import type { Plan } from './plan.ts'
import { POINT_TITLES, POINTS, type Point } from './points.ts'

/** A blow that a worker has taken. */
export interface Struck {
  readonly point: Point
  /** The events that the worker was hit at, and those that it had in hand beside them. */
  readonly hit: readonly number[]
  readonly beside: readonly number[]
}

/** A row of the table: events to which the same has happened. An event to which several things happened is in several rows. */
export interface ProveRow {
  /** One of the points, or what happened to events that were at none. */
  readonly point: Point | 'beside' | 'sent-twice' | 'untouched'
  readonly title: string
  /** How often workers were killed there; undefined where no worker was. */
  readonly blows?: number | undefined
  readonly events: number
  readonly lost: number
  readonly doubled: number
}

/** An event that is lost or doubled, and what happened to it. */
export interface WrongEvent {
  /** Its number. */
  readonly event: number
  readonly effects: number
  /** Its rows. */
  readonly points: readonly ProveRow['point'][]
  readonly happened: readonly string[]
}

export interface Stories {
  readonly rows: readonly ProveRow[]
  readonly wrong: readonly WrongEvent[]
}

const OTHER_TITLES = {
  beside: 'in hand beside a killed one',
  'sent-twice': 'sent twice',
  untouched: 'sent once, no kill',
} as const

/** Tells for each event what happened to it, from the blows, the copies and the count. */
export function tellStories(
  plan: Pick<Plan, 'sentTwice'>,
  struck: readonly Struck[],
  effects: readonly number[],
): Stories {
  const numbers = effects.map((_, index) => index + 1)
  const hitAt = new Map<Point, Set<number>>()
  for (const { hit, point } of struck) {
    hitAt.set(point, new Set([...(hitAt.get(point) ?? []), ...hit]))
  }
  const hit = new Set(struck.flatMap((each) => each.hit))
  const beside = new Set(struck.flatMap((each) => each.beside).filter((event) => !hit.has(event)))
  const { sentTwice } = plan
  const isUntouched = (event: number): boolean =>
    !hit.has(event) && !beside.has(event) && !sentTwice.has(event)
  const row = rowOf(effects)
  const points = POINTS.filter((point) => struck.some((each) => each.point === point))
  return {
    rows: [
      row('untouched', OTHER_TITLES.untouched, numbers.filter(isUntouched)),
      row('sent-twice', OTHER_TITLES['sent-twice'], [...sentTwice]),
      ...points.map((point) => ({
        ...row(point, POINT_TITLES[point], [...(hitAt.get(point) ?? [])]),
        blows: struck.filter((each) => each.point === point).length,
      })),
      row('beside', OTHER_TITLES.beside, [...beside]),
    ].filter(({ blows, events }) => events > 0 || blows !== undefined),
    wrong: numbers
      .filter((event) => effects[event - 1] !== 1)
      .map((event) => {
        const hits = points.filter((point) => hitAt.get(point)?.has(event))
        const others = [
          ...(beside.has(event) ? (['beside'] as const) : []),
          ...(sentTwice.has(event) ? (['sent-twice'] as const) : []),
        ]
        const titles = [
          ...hits.map((each) => POINT_TITLES[each]),
          ...others.map((each) => OTHER_TITLES[each]),
        ]
        return {
          ...{ event, effects: effects[event - 1] ?? 0, points: [...hits, ...others] },
          happened: titles.length === 0 ? [OTHER_TITLES.untouched] : titles,
        }
      }),
  }
}

const rowOf =
  (effects: readonly number[]) =>
  (point: ProveRow['point'], title: string, events: readonly number[]): ProveRow => {
    const of = events.map((event) => effects[event - 1] ?? 0)
    return {
      ...{ point, title, events: events.length },
      lost: of.filter((each) => each === 0).length,
      doubled: of.filter((each) => each > 1).length,
    }
  }
