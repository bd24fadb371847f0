// @module-tag nightly

import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { fileURLToPath } from 'node:url'
import { expect, test } from 'vitest'
import { programsOf, renamed, unpacked } from './debian.ts'
import { install } from './sandbox.ts'
import { NEWER_SERVERS, POSTGRES, versionOf } from './table.ts'

const root = fileURLToPath(new URL('../..', import.meta.url))
const LONGEST_MS = 1_200_000

/** The integration tests of these paths, each of which starts its servers with these variables. */
async function integration(paths: readonly string[], env: NodeJS.ProcessEnv): Promise<string> {
  const { VITEST: _, VITEST_POOL_ID: __, VITEST_WORKER_ID: ___, ...outer } = process.env
  const args = [join(root, 'node_modules/vitest/vitest.mjs'), 'run', '--project=int', ...paths]
  const child = spawn(process.execPath, [...args, '--reporter=dot', '--tags-filter=!nightly'], {
    cwd: root,
    env: { ...outer, NODE_OPTIONS: '', ONCEWARD_DOCKER: '0', ...env },
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  const [[code], output] = await Promise.all([once(child, 'close'), text(child.stdout)])
  return code === 0 ? 'passed' : output
}

const inFront = (...folders: readonly string[]): string =>
  [...folders, process.env['PATH']].join(':')

test.for(NEWER_SERVERS)(
  'the integration tests pass on $name of Debian $suite',
  { timeout: LONGEST_MS },
  async ({ command, package: name, paths, suite }, { skip }) => {
    const own = await unpacked(suite, name)
    if (own === undefined) return skip(`${name} of Debian ${suite} cannot be had here`)
    console.log(`${name} ${own.version}`)
    const programs = programsOf(own)
    const env =
      command === undefined
        ? { PATH: inFront(...programs), ONCEWARD_RABBITMQ_BIN: programs[0] }
        : { PATH: inFront(await renamed(own, command, 'redis-server')) }
    expect(await integration(paths, env)).toBe('passed')
  },
)

const OF_POSTGRES = ['conformance', 'releases', 'wire-cost', 'least-privilege', 'operators/']

test.each(POSTGRES.tested.filter((named) => !versionOf(named).startsWith('18.')))(
  'the integration tests of the tables pass on %s',
  async (named) => {
    const sandbox = await install([named])
    const home = join(sandbox.folder, 'node_modules', named.slice(0, named.lastIndexOf('@')))
    try {
      // Standbys of the tests are made as from 15 on.
      const some = versionOf(named).startsWith('14.') ? OF_POSTGRES.slice(0, -1) : OF_POSTGRES
      const paths = some.map((path) => `packages/postgres/src/${path}`)
      const env = { ONCEWARD_POSTGRES_HOME: home }
      expect(await integration(paths, env)).toBe('passed')
    } finally {
      sandbox.dispose()
    }
  },
  LONGEST_MS,
)
