// @module-tag nightly

import { chmod, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import { ServerMissingError } from './server.ts'
import { type Need, toolPaths } from './tools.ts'

let directory: string

const NEED: Need = {
  service: 'redis',
  variable: 'ONCEWARD_REDIS_URL',
  tools: [{ command: 'onceward-tool', package: 'tool-package' }],
}

beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'onceward-tools-'))
  vi.stubEnv('ONCEWARD_CACHE', join(directory, 'cache'))
  vi.stubEnv('PATH', directory)
})

afterEach(async () => {
  vi.unstubAllEnvs()
  await rm(directory, { recursive: true })
})

async function program(name: string, script: string): Promise<string> {
  const path = join(directory, name)
  await writeFile(path, `#!/bin/sh\n${script}`)
  await chmod(path, 0o755)
  return path
}

test('a tool on PATH is found, and nothing is installed', async () => {
  const path = await program('onceward-tool', '')
  expect(await toolPaths(NEED)).toEqual({ 'onceward-tool': path })
})

test('the error of a missing tool says what to install and what to set', async () => {
  const error = await toolPaths(NEED).catch((reason: unknown) => reason)
  expect(error).toBeInstanceOf(ServerMissingError)
  expect((error as Error).message).toBe(
    'redis needs onceward-tool: install tool-package, or set ONCEWARD_REDIS_URL to a server of ' +
      'yours.\nONCEWARD_SKIP=redis skips its tests.',
  )
})

const asRoot = test.runIf(process.getuid?.() === 0)

asRoot('concurrent calls install a missing package once', async () => {
  const tool = join(directory, 'onceward-tool')
  const log = join(directory, 'apt.log')
  await program(
    'apt-get',
    `echo "$@" >> ${log}; echo '#!/bin/sh' > ${tool}; /bin/chmod 755 ${tool}`,
  )
  const quiet = vi.spyOn(process.stderr, 'write').mockReturnValue(true)

  const found = await Promise.all([toolPaths(NEED), toolPaths(NEED), toolPaths(NEED)])
  expect(found).toEqual(found.map(() => ({ 'onceward-tool': tool })))
  expect(quiet.mock.calls.join()).toContain('installing the Debian package tool-package')
  const lines = (await readFile(log, 'utf8')).trim().split('\n')
  expect(lines).toHaveLength(1)
  expect(lines[0]).toContain('install -y -q --no-install-recommends tool-package')
  quiet.mockRestore()
})

asRoot('the error of a failed installation says why', async () => {
  await program('apt-get', 'echo "E: Unable to locate package tool-package" >&2; exit 100')
  const quiet = vi.spyOn(process.stderr, 'write').mockReturnValue(true)
  await expect(toolPaths(NEED)).rejects.toThrow(/Unable to locate package tool-package/)
  quiet.mockRestore()
})
