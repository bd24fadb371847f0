// @module-tag nightly

import { spawnSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { database } from '@onceward/testing'
import { expect, test } from 'vitest'
import { parse } from 'yaml'

const root = join(import.meta.dirname, '../..')
const text = readFileSync(join(root, 'docs/migrations.md'), 'utf8')
const parts = [...text.matchAll(/^```yaml\n([\s\S]*?)^```/gm)].map(([, yaml = '']) => yaml)

/** Every command of the page, in the order of the page: `command` of containers, `run` of steps. */
function commandsIn(value: unknown): readonly string[] {
  if (typeof value !== 'object' || value === null) return []
  return Object.entries(value).flatMap(([name, inside]) => {
    if (name === 'run') return [String(inside)]
    return name === 'command' ? [(inside as string[]).join(' ')] : commandsIn(inside)
  })
}

test('docs/migrations.md: the init container waits for the job, and the step of the CI does the same', async () => {
  const commands = parts.flatMap((part) => commandsIn(parse(part, { strict: true })))
  const ours = commands
    .filter((command) => command.includes('onceward'))
    .map((command) => command.replace(/^(npx |node_modules\/\.bin\/)onceward /, '').split(' '))
  expect(ours).toEqual([['migrate'], ['migrate', '--check'], ['migrate']])
  const { url } = await database()
  const play = (args: readonly string[] = []): number | null => {
    const program = join(root, 'packages/onceward/bin/onceward.js')
    const env = { ...process.env, DATABASE_URL: url }
    return spawnSync(process.execPath, [program, ...args], { env, stdio: 'ignore' }).status
  }
  const [job, init, step] = ours
  expect([play(init), play(job), play(init), play(step), play(init)]).toEqual([1, 0, 0, 0, 0])
})
