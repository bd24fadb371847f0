import assert from 'node:assert/strict'
import { execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import { test } from 'node:test'
import { setTimeout } from 'node:timers/promises'
import { healthPort } from '../src/settings.ts'

const address = `http://localhost:${healthPort}`
const runToEnd = (file: string): Buffer => execFileSync(process.execPath, [`src/${file}.ts`])

async function metrics(): Promise<string> {
  const response = await fetch(`${address}/metrics`).catch(() => undefined)
  return (await response?.text()) ?? ''
}

/** The sum of the lines of a metric that have this text. */
function sum(text: string, metric: string, having: string): number {
  const lines = text
    .split('\n')
    .filter((line) => line.startsWith(`${metric}{`) && line.includes(having))
  return lines.reduce((total, line) => total + Number(/\} (\d+)/.exec(line)?.[1]), 0)
}

test('Prometheus sees what was processed, what was a duplicate and what is dead', {
  timeout: 120_000,
}, async () => {
  runToEnd('setup')
  const args = ['--import', './src/telemetry.ts', 'src/worker.ts']
  const worker = spawn(process.execPath, args, { stdio: ['ignore', 'ignore', 'inherit'] })
  try {
    runToEnd('send')
    const deliveries = async (having: string): Promise<number> =>
      sum(await metrics(), 'onceward_deliveries_total', having)
    // Twenty orders, each sent twice: what is not new is a duplicate, also in a second run of this test.
    while ((await deliveries('onceward_outcome="ack"')) < 36) await setTimeout(100)
    while ((await deliveries('onceward_outcome="dead-letter"')) < 4) await setTimeout(100)
    assert.ok((await deliveries('onceward_reason="duplicate"')) >= 18)
    const ready = await fetch(`${address}/readyz`)
    assert.equal(ready.status, 200)
  } finally {
    worker.kill('SIGTERM')
    await once(worker, 'exit')
  }
})
