// The SDK starts before the program: node --import ./src/telemetry.ts src/worker.ts
import { metrics } from '@opentelemetry/api'
import { PrometheusExporter } from '@opentelemetry/exporter-prometheus'
import { MeterProvider } from '@opentelemetry/sdk-metrics'

/** Has no server of its own: the health server shows what it collects. */
export const exporter: PrometheusExporter = new PrometheusExporter({ preventServerStart: true })
metrics.setGlobalMeterProvider(new MeterProvider({ readers: [exporter] }))
