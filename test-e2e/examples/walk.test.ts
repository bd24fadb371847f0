// @module-tag nightly

import { readFileSync } from 'node:fs'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { run } from './projects.ts'
import { startServers } from './servers.ts'

const root = join(import.meta.dirname, '../..')
const FIVE_MINUTES = 300_000

/** The commands of the quick start in README.md, as somebody types them who has a clone. */
function quickStart(): string {
  const readme = readFileSync(join(root, 'README.md'), 'utf8')
  const [section = ''] = /^## Quick start\n[\s\S]*?(?=^## )/m.exec(readme) ?? []
  const blocks = [...section.matchAll(/^```sh\n([\s\S]*?)^```/gm)].map(([, text = '']) => text)
  expect(blocks).toHaveLength(2)
  const [published = '', fromClone = ''] = blocks
  const [create = '', ...rest] = published.split('\n')
  expect(create).toMatch(/^npm create onceward /)
  return `${fromClone}${rest.join('\n')}`
}

/** What differs on this machine: the example, the folders, and servers in place of Docker. */
function here(commands: string, base: string, example: string): string {
  const changes = [
    ['sqs-express-orders', example],
    ['--pack-destination=/tmp', `--pack-destination=${base}`],
    ['--packages /tmp', `--packages ${base}`],
    ['../my-service', join(base, 'my-service')],
    ['cd ..\n', `cd ${base}\n`],
    ['docker compose up --detach --wait\n', ''],
  ] as const
  for (const [from] of changes) expect(commands).toContain(from)
  return changes.reduce((text, [from, to]) => text.replaceAll(from, to), commands)
}

test.each([
  ...['sqs-express-orders', 'kafka-kysely', 'rabbitmq-redis'],
  ...['nest-typeorm-kafka', 'nest-prisma-sqs'],
])(
  'README.md leads from the packages to a consumer that survives a SIGKILL in five minutes: %s',
  { timeout: 3 * FIVE_MINUTES },
  async (example) => {
    const base = await mkdtemp(join(tmpdir(), 'onceward-walk-'))
    try {
      await using servers = await startServers(example)
      const startedAt = performance.now()
      const script = here(quickStart(), base, example)
      const output = await run('bash', ['-euc', script], { cwd: root, env: servers.env })
      const tookMs = performance.now() - startedAt
      expect(output).toMatch(/pass 1\b/)
      // The log of workers is shown only if the test fails.
      expect(output).not.toMatch(/"level":\d/)
      expect(output).toContain('the worker was killed')
      expect(tookMs).toBeLessThan(FIVE_MINUTES)
      console.log(`${example}: ${Math.round(tookMs / 1_000)} s`)
    } finally {
      await rm(base, { recursive: true, force: true })
    }
  },
)
