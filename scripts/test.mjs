import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { turbo } from './build.mjs'
import { runChecks } from './checks.mjs'
import { fromSource, pinnedNode, root, run, tool } from './process.mjs'

const installer = 'packages/testing/src/servers/run/install.ts'

/** Runs Vitest; a run that ended badly without a failed test counts as one failure. */
async function runVitest(args) {
  const directory = mkdtempSync(join(tmpdir(), 'onceward-test-'))
  const file = join(directory, 'summary.json')
  const reporters = ['--reporter=default', '--reporter=./scripts/vitest-summary.mjs']
  try {
    const env = { ONCEWARD_SUMMARY: file }
    const { code } = await run(tool('vitest'), ['run', ...reporters, ...args], { env })
    const summary = existsSync(file)
      ? JSON.parse(readFileSync(file, 'utf8'))
      : { passed: 0, failed: 0, skipped: [] }
    if (code !== 0 && summary.failed === 0) summary.failed = 1
    return summary
  } finally {
    rmSync(directory, { recursive: true, force: true })
  }
}

function reportSkipped(skipped) {
  const services = process.env.ONCEWARD_SKIP
  if (services) console.log(`\nleft out by ONCEWARD_SKIP: ${services}`)
  if (skipped.length === 0) return
  console.log(`\n${skipped.length} skipped:`)
  for (const title of skipped) console.log(` - ${title}`)
}

/**
 * `npm test [-- --unit] [-- FILTER …]`: everything; with `--unit` nothing that needs a server; with a filter only
 * the tests it names, without the checks.
 *
 * @returns The exit code; the last line printed is `N passed, N failed`.
 */
export async function test(args) {
  const unit = args.includes('--unit')
  const filters = args.filter((arg) => arg !== '--unit')
  if (!unit && existsSync(join(root, installer))) await run(pinnedNode, [fromSource, installer])
  const checks = filters.length === 0 ? await runChecks() : { passed: 0, failed: 0 }
  if (filters.length > 0) await turbo('build')
  const tests = await runVitest([...(unit ? ['--project=unit'] : []), ...filters])
  reportSkipped(tests.skipped)
  const failed = checks.failed + tests.failed
  console.log(`\n${checks.passed + tests.passed} passed, ${failed} failed`)
  return failed === 0 ? 0 : 1
}
