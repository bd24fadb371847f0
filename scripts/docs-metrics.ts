import {
  CONSUMPTION_METRICS,
  DEDUP_METRICS,
  DELIVERY_METRICS,
  GUARD_METRICS,
  type Metric,
  OUTBOX_METRICS,
  TABLE_METRICS,
} from '../packages/otel/src/names.ts'
import { code, table } from './docs-table.ts'

const TABLES: Readonly<Record<string, Readonly<Record<string, Metric>>>> = {
  delivery: DELIVERY_METRICS,
  guard: GUARD_METRICS,
  table: TABLE_METRICS,
  consumption: CONSUMPTION_METRICS,
  dedup: DEDUP_METRICS,
  outbox: OUTBOX_METRICS,
}

/** The metrics of one of the tables of packages/otel/src/names.ts. What all of them have is said once. */
export function metricTable(name: string): string {
  const metrics = TABLES[name]
  if (metrics === undefined) throw new Error(`There are no metrics called "${name}".`)
  const all = Object.values(metrics)
  const common = (all[0]?.attributes ?? []).filter((attribute) =>
    all.every(({ attributes }) => attributes.includes(attribute)),
  )
  const rows = all.map(({ attributes, kind, meaning, name: metric, unit }) => [
    code(metric),
    `${kind.replace('observable-', '')}, ${code(unit)}`,
    attributes
      .filter((attribute) => !common.includes(attribute))
      .map(code)
      .join(', '),
    meaning,
  ])
  const head = ['Metric', 'Kind, unit', 'Attributes', 'What it is']
  return `All have ${common.map(code).join(', ')}.\n\n${table(head, rows)}`
}
