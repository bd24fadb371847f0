import { execFile } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { expect, test } from 'vitest'

/** Bounds on the work for one clean event, beside a store that does nothing. Lower them when the path becomes shorter. */
const MOST = { promises: 21, timers: 1, calls: 262 }

test('a clean event makes no more promises, timers and calls than it did', async () => {
  const main = fileURLToPath(new URL('count-main.ts', import.meta.url))
  const { stdout } = await promisify(execFile)(process.execPath, [
    '--conditions=@onceward/source',
    main,
  ])
  const costs: Record<string, number> = JSON.parse(stdout)
  for (const [name, most] of Object.entries(MOST)) {
    expect(costs[name], name).toBeGreaterThan(0)
    expect(costs[name], name).toBeLessThanOrEqual(most)
  }
})
