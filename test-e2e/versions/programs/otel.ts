import assert from 'node:assert/strict'
import { createGuard } from '@onceward/core'
import { memoryInbox, toDelivery } from '@onceward/core/memory'
import { meterObserver, traced } from '@onceward/otel'
import { healthServer } from '@onceward/otel/health'
import { context, metrics, trace } from '@opentelemetry/api'

const { inbox, observe } = { inbox: memoryInbox(), observe: meterObserver() }
const seen: unknown[] = []
const guard = createGuard(
  { consumer: 'versions', inbox, observe },
  traced(async ({ payload }) => {
    seen.push(payload, trace.getSpan(context.active()) !== undefined)
  }),
)
assert.equal((await guard.process(toDelivery('a'))).kind, 'ack')
assert.equal(seen[0], 'a')
assert.ok(metrics.getMeterProvider())
const server = await healthServer({ consumptions: {}, guards: [guard], port: 0 })
assert.equal((await fetch(`http://127.0.0.1:${server.port}/livez`)).status, 200)
await server.close()
await guard.close()
console.log('proved')
