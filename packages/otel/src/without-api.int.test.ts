import { execFile } from 'node:child_process'
import { cp, mkdir, mkdtemp, rm, symlink } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { afterAll, beforeAll, expect, test } from 'vitest'

const packages = fileURLToPath(new URL('../..', import.meta.url))
let directory: string

// A program that has installed the package without its optional peer.
beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), 'onceward-otel-'))
  for (const name of ['core', 'otel']) {
    // Node strips types only outside of node_modules.
    const target = join(directory, 'packages', name)
    for (const part of ['package.json', 'src'])
      await cp(join(packages, name, part), join(target, part), { recursive: true })
    await mkdir(join(directory, 'node_modules/@onceward'), { recursive: true })
    await symlink(target, join(directory, 'node_modules/@onceward', name))
  }
})
afterAll(() => rm(directory, { recursive: true }))

async function imports(name: string): Promise<string> {
  const text = `const { healthServer } = await import('${name}'); console.log(typeof healthServer)`
  const { stderr, stdout } = await promisify(execFile)(
    process.execPath,
    ['--conditions=@onceward/source', '--input-type=module', '-e', text],
    { cwd: directory },
  ).catch((error: { readonly stdout: string; readonly stderr: string }) => error)
  return stdout + stderr
}

test('without @opentelemetry/api the import says what is missing, and the health server works', async () => {
  expect(await imports('@onceward/otel')).toContain("Cannot find package '@opentelemetry/api'")
  expect(await imports('@onceward/otel/health')).toContain('function')
})
