import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { cp, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { delimiter, join } from 'node:path'
import { text } from 'node:stream/consumers'
import { linkModules } from '../../support/link-modules.ts'
import type { Bug } from './bug.ts'

const root = join(import.meta.dirname, '../../..')

const COPIED = [
  'packages',
  'test-e2e',
  'docs',
  'package.json',
  'tsconfig.base.json',
  'tsconfig.test.json',
]

/** Short timeouts: a test that a bug breaks may wait for ever for what it has left behind. */
const CONFIG = `import { defineConfig } from 'vitest/config'
const conditions = ['@onceward/source', 'node', 'development|production']
export default defineConfig({
  resolve: { conditions },
  ssr: { resolve: { conditions } },
  test: {
    tags: [{ name: 'nightly' }],
    include: ['packages/**/*.test.ts', 'test-e2e/**/*.test.ts'],
    globalSetup: ['./packages/testing/src/vitest/global-setup.ts'],
    testTimeout: 60_000,
    hookTimeout: 10_000,
    teardownTimeout: 3_000,
  },
})
`

/** What a run of tests in the copy has come to. */
export interface Outcome {
  readonly passed: number
  readonly failed: number
}

/** A copy of the product and its tests, in which a bug can be put back and tests be run. */
export interface ProductCopy extends AsyncDisposable {
  /** Its directory, laid out like the repository. */
  readonly path: string
  /** @throws Error when a text to be replaced is not there exactly once: the product has changed, and the bug must follow. */
  putBack(bug: Pick<Bug, 'edits'>): Promise<AsyncDisposable>
  run(test: Bug['foundBy']): Promise<Outcome>
}

export async function copyProduct(): Promise<ProductCopy> {
  const path = await mkdtemp(join(tmpdir(), 'onceward-put-back-'))
  for (const name of COPIED) {
    const filter = (source: string): boolean => !/\/(node_modules|dist|\.turbo)$/.test(source)
    await cp(join(root, name), join(path, name), { recursive: true, filter })
  }
  await linkModules(path)
  await writeFile(join(path, 'put-back.config.ts'), CONFIG)
  return {
    path,
    putBack: (bug) => edit(path, bug),
    run: (test) => run(path, test),
    [Symbol.asyncDispose]: () => rm(path, { recursive: true, force: true }),
  }
}

async function edit(path: string, { edits }: Pick<Bug, 'edits'>): Promise<AsyncDisposable> {
  const before = new Map<string, string>()
  for (const { file, find, replace } of edits) {
    const source = await readFile(join(path, file), 'utf8')
    if (!before.has(file)) before.set(file, source)
    const parts = source.split(find)
    if (parts.length !== 2) throw new Error(`${file} has ${parts.length - 1} times: ${find}`)
    await writeFile(join(path, file), parts.join(replace))
  }
  return {
    [Symbol.asyncDispose]: async () => {
      for (const [file, source] of before) await writeFile(join(path, file), source)
    },
  }
}

/** Without the marks of the Vitest that runs this. */
function outerEnvironment(): NodeJS.ProcessEnv {
  const entries = Object.entries(process.env).filter(
    ([name]) => !/VITEST|^TEST$|^NODE_ENV$/.test(name),
  )
  return Object.fromEntries(entries)
}

interface Report {
  readonly numPassedTests: number
  readonly numFailedTests: number
}

async function run(path: string, { file, title }: Bug['foundBy']): Promise<Outcome> {
  const bin = join(root, 'node_modules/.bin')
  const output = join(path, 'report.json')
  await rm(output, { force: true })
  const pattern = title.replaceAll(/[$()*+.?[\\\]^{|}]/g, '\\$&')
  const options = ['--config', 'put-back.config.ts', '--reporter=json', `--outputFile=${output}`]
  const child = spawn(join(bin, 'vitest'), ['run', ...options, '--bail=1', '-t', pattern, file], {
    cwd: path,
    env: { ...outerEnvironment(), PATH: `${bin}${delimiter}${process.env['PATH'] ?? ''}` },
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  const [stdout, stderr] = await Promise.all([
    text(child.stdout),
    text(child.stderr),
    once(child, 'close'),
  ])
  const report = await readFile(output, 'utf8').catch(() => {
    throw new Error(`the tests did not run:\n${stdout}\n${stderr}`)
  })
  const { numFailedTests: failed, numPassedTests: passed } = JSON.parse(report) as Report
  if (passed + failed === 0) throw new Error(`no test ran:\n${stdout}\n${stderr}\n${report}`)
  return { passed, failed }
}
