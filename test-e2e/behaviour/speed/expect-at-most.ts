import { execFile } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { expect } from 'vitest'

/** What a main of this folder counted, in a process of its own. */
export async function count(
  name: string,
  ...args: readonly string[]
): Promise<Readonly<Record<string, number>>> {
  const main = fileURLToPath(new URL(`${name}.ts`, import.meta.url))
  const { stdout } = await promisify(execFile)(process.execPath, [
    '--conditions=@onceward/source',
    main,
    ...args,
  ])
  return JSON.parse(stdout)
}

export function expectAtMost(
  costs: Readonly<Record<string, number>>,
  bounds: Readonly<Record<string, number>>,
): void {
  for (const [name, most] of Object.entries(bounds)) {
    expect(costs[name], name).toBeGreaterThan(0)
    expect(costs[name], name).toBeLessThanOrEqual(most)
  }
}
