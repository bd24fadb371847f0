import { type MeterProvider, metrics } from '@opentelemetry/api'
import { type MeteredConsumptions, namedConsumptions, samplesOf } from './consumption-samples.ts'
import { meterOf } from './metering.ts'
import { CONSUMPTION_METRICS } from './names.ts'
import { observe } from './observables.ts'

/**
 * Records what `health()` of running consumers says, whenever metrics are collected:
 * `meterConsumptions({ orders: await consumeKafka(…) })`. The names become an attribute.
 *
 * Call it when the SDK has started: what is registered later is not found.
 *
 * @returns Ends it.
 * @throws {@link ConfigurationError}
 */
export function meterConsumptions(
  consumptions: MeteredConsumptions,
  options: { readonly meterProvider?: MeterProvider | undefined } = {},
): () => void {
  const named = namedConsumptions('meterConsumptions', consumptions)
  const meter = meterOf(options.meterProvider ?? metrics.getMeterProvider())
  return observe(meter, CONSUMPTION_METRICS, (tell) => {
    for (const [name, consumption] of named) {
      for (const { attributes, metric, value } of samplesOf(name, consumption.health(), Date.now()))
        tell(metric, value, attributes)
    }
  })
}
