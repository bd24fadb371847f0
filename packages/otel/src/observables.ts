import type { Attributes, BatchObservableCallback, Meter, Observable } from '@opentelemetry/api'
import type { Metric } from './names.ts'

/** Reports the value of a metric for these attributes. */
export type Tell<Metrics> = (metric: keyof Metrics, value: number, attributes: Attributes) => void

/**
 * Makes the instruments of a table of metrics. `read` reports their values whenever metrics are collected, until the
 * returned function is called.
 */
export function observe<Metrics extends Readonly<Record<string, Metric>>>(
  meter: Meter,
  metrics: Metrics,
  read: (tell: Tell<Metrics>) => Promise<void> | void,
): () => void {
  const instruments = new Map<keyof Metrics, Observable>(
    Object.entries(metrics).map(([key, metric]) => [key, observable(meter, metric)]),
  )
  const callback: BatchObservableCallback = (result) =>
    read((metric, value, attributes) => {
      const instrument = instruments.get(metric)
      if (instrument !== undefined) result.observe(instrument, value, attributes)
    })
  const all = [...instruments.values()]
  meter.addBatchObservableCallback(callback, all)
  return () => meter.removeBatchObservableCallback(callback, all)
}

function observable(meter: Meter, { kind, meaning, name, unit }: Metric): Observable {
  const options = { description: meaning, unit }
  return kind === 'observable-counter'
    ? meter.createObservableCounter(name, options)
    : meter.createObservableGauge(name, options)
}
