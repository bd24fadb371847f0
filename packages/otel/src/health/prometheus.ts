import type { Metric } from '../names.ts'

/** One value of a metric, with the attributes of its series. */
export interface Value {
  readonly metric: Metric
  readonly value: number
  readonly attributes: Readonly<Record<string, string>>
}

export const CONTENT_TYPE = 'text/plain; version=0.0.4; charset=utf-8'

/** The name of a metric in Prometheus: as OpenTelemetry's exporter for JavaScript writes it, which adds no unit. */
function prometheusName({ kind, name }: Metric): string {
  const isCounter = kind === 'counter' || kind === 'observable-counter'
  return isCounter ? `${underscored(name)}_total` : underscored(name)
}

/** The values in Prometheus' text format, each metric once. */
export function prometheusText(values: readonly Value[]): string {
  const lines = [...Map.groupBy(values, ({ metric }) => metric)].flatMap(([metric, all]) => {
    const name = prometheusName(metric)
    const type = metric.kind === 'gauge' ? 'gauge' : 'counter'
    return [
      `# HELP ${name} ${metric.meaning}`,
      `# TYPE ${name} ${type}`,
      ...all.map(({ attributes, value }) => `${name}{${labels(attributes)}} ${value}`),
    ]
  })
  return `${lines.join('\n')}\n`
}

const underscored = (name: string): string => name.replaceAll(/[^A-Za-z0-9_]/g, '_')

function labels(attributes: Value['attributes']): string {
  return Object.entries(attributes)
    .map(([name, value]) => `${underscored(name)}="${escaped(value)}"`)
    .join(',')
}

const escaped = (value: string): string =>
  value.replaceAll('\\', '\\\\').replaceAll('"', '\\"').replaceAll('\n', '\\n')
