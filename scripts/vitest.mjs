import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { filesToRepeat, judge } from './judge.mjs'
import { root, run, tool } from './process.mjs'

const reporter = join(root, 'scripts/vitest-summary.mjs')

/** Runs Vitest; `summary` is undefined when Vitest ended before its tests did. */
async function runVitest(args, { cwd, env }) {
  const directory = mkdtempSync(join(tmpdir(), 'onceward-test-'))
  const file = join(directory, 'summary.json')
  try {
    const all = ['run', `--reporter=${reporter}`, ...args]
    const { code } = await run(tool('vitest'), all, {
      env: { ...env, ONCEWARD_SUMMARY: file },
      cwd,
    })
    const summary = existsSync(file) ? JSON.parse(readFileSync(file, 'utf8')) : undefined
    return { code, summary }
  } finally {
    rmSync(directory, { recursive: true, force: true })
  }
}

/**
 * Runs tests; with `repeats`, a file that failed runs once more when everything else is over, alone.
 *
 * @param options.args - Options and filters of Vitest.
 * @param options.common - Options that a second run needs too.
 * @returns The verdict of {@link judge}.
 */
export async function runTests({
  args,
  common = ['--reporter=default'],
  repeats = true,
  cwd = root,
  env = {},
}) {
  const place = { cwd, env }
  const first = await runVitest([...common, ...args], place)
  const second = new Map()
  for (const file of repeats ? filesToRepeat(first.summary) : []) {
    console.log(`\n${file} failed and runs once more, alone:`)
    second.set(file, await runVitest([...common, join(cwd, file)], place))
  }
  return judge(first, second)
}
