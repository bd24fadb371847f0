// node --import ./telemetry.ts worker.ts: the SDK starts before the program.
import { context, metrics, propagation, trace } from '@opentelemetry/api'
import { AsyncLocalStorageContextManager } from '@opentelemetry/context-async-hooks'
import { W3CTraceContextPropagator } from '@opentelemetry/core'
import { PrometheusExporter } from '@opentelemetry/exporter-prometheus'
import { MeterProvider } from '@opentelemetry/sdk-metrics'
import { ConsoleSpanExporter, SimpleSpanProcessor, TracerProvider } from '@opentelemetry/sdk-trace'

export const exporter: PrometheusExporter = new PrometheusExporter({ preventServerStart: true })
metrics.setGlobalMeterProvider(new MeterProvider({ readers: [exporter] }))

// SDK 3 takes an object. SDK 2 takes the exporter itself.
const spans = new SimpleSpanProcessor({ exporter: new ConsoleSpanExporter() })
trace.setGlobalTracerProvider(new TracerProvider({ spanProcessors: [spans] }))
context.setGlobalContextManager(new AsyncLocalStorageContextManager())
propagation.setGlobalPropagator(new W3CTraceContextPropagator())
