// @module-tag nightly

import { spawnSync } from 'node:child_process'
import { mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { describe, expect, test } from 'vitest'

const root = fileURLToPath(new URL('../..', import.meta.url))

interface FileSummary {
  readonly file: string
  readonly passed: readonly string[]
  readonly failed: readonly string[]
  readonly skipped: readonly string[]
  readonly leftOut: number
}

interface Run {
  readonly code: number
  readonly summary?: { readonly files: readonly FileSummary[]; readonly strayErrors: number }
}

interface Verdict {
  readonly passed: number
  readonly failed: number
  readonly skipped: readonly string[]
  readonly leftOut: number
  readonly flaky: readonly string[]
}

interface Judge {
  readonly filesToRepeat: (summary: Run['summary']) => readonly string[]
  readonly judge: (first: Run, second?: ReadonlyMap<string, Run>) => Verdict
}

const { filesToRepeat, judge }: Judge = await import(join(root, 'scripts/judge.mjs'))

const fileOf = (file: string, change: Partial<FileSummary>): FileSummary => {
  return { file, passed: [], failed: [], skipped: [], leftOut: 0, ...change }
}

const runOf = (code: number, ...files: readonly FileSummary[]): Run => {
  return { code, summary: { files, strayErrors: 0 } }
}

describe('the verdict on a run', () => {
  const failing = runOf(
    1,
    fileOf('a', { passed: ['one'], failed: ['two'] }),
    fileOf('b', { passed: ['three'] }),
  )
  const secondOf = (run: Run): ReadonlyMap<string, Run> => new Map([['a', run]])

  test('counts a file that passes the second time as passed, and lists what had failed', () => {
    const second = secondOf(runOf(0, fileOf('a', { passed: ['one', 'two'] })))
    expect(judge(failing, second)).toMatchObject({ passed: 3, failed: 0, flaky: ['a > two'] })
  })

  test('fails what fails again, also when it is another test of the file', () => {
    const again = secondOf(runOf(1, fileOf('a', { passed: ['one'], failed: ['two'] })))
    expect(judge(failing, again)).toMatchObject({ passed: 2, failed: 1, flaky: [] })
    const other = secondOf(runOf(1, fileOf('a', { passed: ['two'], failed: ['one'] })))
    expect(judge(failing, other)).toMatchObject({ passed: 2, failed: 1, flaky: [] })
  })

  test.each<[string, Run]>([
    ['crashes', { code: 1 }],
    ['ends badly without a failed test', runOf(1, fileOf('a', { passed: ['one', 'two'] }))],
    ['finds no test', runOf(1)],
    ['skips what had failed', runOf(0, fileOf('a', { passed: ['one'], skipped: ['two'] }))],
  ])('keeps the failure when the second run %s', (_, run) => {
    expect(judge(failing, secondOf(run))).toMatchObject({ passed: 2, failed: 1, flaky: [] })
  })

  test('counts a run that crashed without a failed test as one failure', () => {
    expect(judge({ code: 1 })).toMatchObject({ passed: 0, failed: 1 })
    expect(judge(runOf(1, fileOf('b', { passed: ['three'] })))).toMatchObject({ failed: 1 })
    const stray = { code: 1, summary: { files: [], strayErrors: 2 } }
    expect(judge(stray)).toMatchObject({ passed: 0, failed: 2 })
  })

  test('runs no file again when many fail: that is no bad luck', () => {
    const files = Array.from({ length: 6 }, (_, index) => fileOf(`${index}`, { failed: ['x'] }))
    expect(filesToRepeat({ files, strayErrors: 0 })).toEqual([])
    expect(filesToRepeat({ files: files.slice(1), strayErrors: 0 })).toHaveLength(5)
  })
})

/** `isFirst` is whether the file runs for the first time. */
const headOf = (name: string): string => `
  import { existsSync, writeFileSync } from 'node:fs'
  import { afterAll, expect, test } from 'vitest'
  const isFirst = !existsSync('ran-${name}')
  writeFileSync('ran-${name}', '')
`

/** What `npm test` makes of test files in a directory of their own. */
function landed(files: Readonly<Record<string, string>>) {
  const directory = mkdtempSync(join(tmpdir(), 'onceward-landing-'))
  const write = (name: string, text: string): void => writeFileSync(join(directory, name), text)
  try {
    symlinkSync(join(root, 'node_modules'), join(directory, 'node_modules'))
    write(
      'vitest.config.mjs',
      "export default { cacheDir: 'cache', test: { tags: [{ name: 'nightly' }] } }",
    )
    for (const [name, text] of Object.entries(files)) {
      write(`${name}.test.mjs`, headOf(name) + text)
    }
    const options = {
      args: [],
      common: ['--reporter=default', '--tags-filter=!nightly'],
      cwd: directory,
    }
    const script = `
      import { runTests } from ${JSON.stringify(join(root, 'scripts/vitest.mjs'))}
      console.log('\\n' + JSON.stringify(await runTests(${JSON.stringify(options)})))`
    const { stdout } = spawnSync(process.execPath, ['--input-type=module', '--eval', script], {
      encoding: 'utf8',
    })
    const verdict: Verdict = JSON.parse(stdout.trimEnd().split('\n').at(-1) ?? '')
    return { verdict, runs: stdout.match(/ RUN /g)?.length }
  } finally {
    rmSync(directory, { recursive: true, force: true })
  }
}

test('a file that fails runs once more, alone; what it reports outside of its tests counts too', () => {
  const { verdict, runs } = landed({
    unlucky: "test('has bad luck once', () => expect(isFirst).toBe(false))",
    broken: "test('never passes', () => expect(1).toBe(2))",
    outside: `
      test('passes', async () => { if (isFirst) Promise.reject(new Error('stray')) })
      afterAll(() => { if (isFirst) throw new Error('hook') })`,
    fine: "test('passes', () => {})\ntest('is for the night', { tags: 'nightly' }, () => {})",
  })
  expect(verdict.flaky.toSorted()).toEqual([
    'outside.test.mjs > an error outside of its tests',
    'outside.test.mjs > an error outside of its tests',
    'unlucky.test.mjs > has bad luck once',
  ])
  expect(verdict).toMatchObject({ passed: 3, failed: 1, leftOut: 1, skipped: [] })
  expect(runs).toBe(4)
}, 300_000)
