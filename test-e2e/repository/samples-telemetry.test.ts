// @module-tag nightly

import { migrate } from '@onceward/postgres'
import { freePort, until } from '@onceward/testing'
import { expect, test } from 'vitest'
import { BROKERS } from '../brokers/index.ts'
import { run } from '../support/samples.ts'

test('the worker of docs/telemetry.md answers probes, exports what it did, and prints its spans', async () => {
  await using servers = new AsyncDisposableStack()
  const server = servers.adopt(await BROKERS.sqs.samples.start(), (started) => started.stop())
  await using queue = await server.openQueue()
  const { scenario } = queue
  await migrate(scenario.pool)
  await queue.send({ orderId: 'order-1', accountId: 1, cents: 1 })
  const port = await freePort()
  await using worker = run('telemetry-worker', {
    ...scenario,
    env: { ...scenario.env, HEALTH_PORT: String(port) },
  })
  const get = async (path: string): Promise<string> => {
    const response = await fetch(`http://127.0.0.1:${port}${path}`)
    return `${response.status} ${await response.text()}`
  }
  const processed = /onceward_deliveries_total\{[^}]*onceward_reason="processed"[^}]*\} 1/
  await until(
    async () => {
      expect(worker.process.exitCode, worker.output()).toBeNull()
      return processed.test(await get('/metrics').catch(() => ''))
    },
    { what: 'the metrics of one event', deadlineMs: 60_000 },
  )
  expect(await get('/livez')).toMatch(/^200 /)
  expect(await get('/readyz')).toMatch(/^200 .*"state":"running"/)
  const metrics = await get('/metrics')
  expect(metrics).toMatch(/onceward_consumption_state\{[^}]*onceward_state="running"[^}]*\} 1/)
  expect(metrics).toMatch(/onceward_table_size\{[^}]*onceward_table="processed_events"[^}]*\} \d+/)
  expect(metrics).toMatch(/onceward_pool_max\{[^}]*\} 10/)
  // Killed, not terminated: a drain waits for the end of a receive of 20 seconds.
  expect(worker.output()).toMatch(/process [\w-]+/)
})
