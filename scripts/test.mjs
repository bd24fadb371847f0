import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { turbo } from './build.mjs'
import { runChecks } from './checks.mjs'
import { fromSource, pinnedNode, root, run } from './process.mjs'
import { runTests } from './vitest.mjs'

const installer = 'packages/testing/src/servers/run/install.ts'
const confluent = 'scripts/confluent.ts'
const DEFAULT = '--reporter=default'
const TESTS = '*.test.ts'

function list(heading, lines) {
  if (lines.length === 0) return
  console.log(`\n${heading}`)
  for (const line of lines) console.log(` - ${line}`)
}

/** Prints the counts, as the last line `N passed, N failed`, and returns the exit code. */
export function report({ failed, flaky, passed, skipped }) {
  const services = process.env.ONCEWARD_SKIP
  if (services) console.log(`\nleft out by ONCEWARD_SKIP: ${services}`)
  list(`${skipped.length} skipped:`, skipped)
  if (flaky.length > 0)
    console.log('\nThese failed, then passed alone. Mend them before anything else:')
  for (const title of flaky) console.log(`flaky: ${title}`)
  console.log(`\n${passed} passed, ${failed} failed`)
  return failed === 0 ? 0 : 1
}

/**
 * What is missing is installed.
 *
 * @param options.isNight - Whether what only nightly tests need is installed too, and the native module of Confluent's
 *   client is built, which takes a minute or two.
 */
export async function prepareServers({ isNight = false } = {}) {
  const installing = [fromSource, installer, ...(isNight ? ['--night'] : [])]
  if (existsSync(join(root, installer))) await run(pinnedNode, installing)
  await run(pinnedNode, [fromSource, confluent, ...(isNight ? [] : ['--cached'])])
}

export async function git(...args) {
  const { code, output } = await run('git', args, { quiet: true })
  return code === 0 ? output : ''
}

/** Splits off `--changed [COMMIT]`; without a commit, everything counts that is not on the upstream branch. */
async function takeChanged(args) {
  const at = args.findIndex((arg) => arg === '--changed' || arg.startsWith('--changed='))
  if (at < 0) return { rest: args, changed: [] }
  const [, inside = ''] = args[at].split('=')
  const next = args[at + 1] ?? ''
  const isNext = inside === '' && next !== '' && !next.startsWith('-')
  const given = inside || (isNext ? next : '')
  const commit = given || (await git('merge-base', 'HEAD', '@{upstream}')) || 'HEAD'
  const rest = [...args.slice(0, at), ...args.slice(at + (isNext ? 2 : 1))]
  const packages = await changedPackages(commit)
  return { rest, changed: [`--changed=${commit}`, '--passWithNoTests', ...packages] }
}

/**
 * The directories of the packages in which something changed: nearly every test of a sibling imports the whole core, so
 * `--changed` stays in these. Empty, for all packages, if something changed that all of them use.
 */
async function changedPackages(commit) {
  const tracked = await git('diff', '--name-only', commit)
  const untracked = await git('ls-files', '--others', '--exclude-standard')
  const files = `${tracked}\n${untracked}`.split('\n').filter((file) => file.endsWith('.ts'))
  const names = files.map((file) => /^packages\/(?!testing\/)[^/]+\//.exec(file)?.[0])
  return names.includes(undefined) ? [] : [...new Set(names)]
}

function projectsOf(isUnit, isChanged) {
  if (isUnit) return ['--project=unit*']
  return isChanged ? ['--project=unit*', '--project=int'] : []
}

const HELP = `Usage: npm test [-- [PATH …] [options]]

Without arguments: builds, checks, and runs what is needed for every commit. Ends with "N passed, N failed".

  PATH                only tests whose path contains it, without the checks
  --unit              only unit tests, which need no server, and the checks
  --changed [COMMIT]  only unit and integration tests that import a file changed since COMMIT
                        (default: what is not on the upstream branch)
  -t TEXT             only tests whose title contains it; Vitest's other options work too:
                      npx vitest --help

Environment:
  ONCEWARD_SKIP=kafka,redis   leave out the tests of services that this machine cannot run
  ONCEWARD_E2E_SEED=N         the seed of property tests and samples; \`clock\`: a new one each time

Other commands: npm run nightly | check | demo | bench | docs | api (CONTRIBUTING.md)`

/**
 * `npm test`: everything but the nightly tests.
 *
 * With `--unit`: nothing that needs a server. With `--changed [COMMIT]`: the unit and integration tests that import
 * what was changed. With a filter: the tests it names, without the checks.
 *
 * @returns The exit code; the last line printed is `N passed, N failed`.
 */
export async function test(args) {
  if (args.includes('--help') || args.includes('-h')) {
    console.log(HELP)
    return 0
  }
  const { rest, changed } = await takeChanged(args)
  const isUnit = rest.includes('--unit')
  const filters = rest.filter((arg) => arg !== '--unit')
  const isChanged = changed.length > 0
  if (!isUnit) await prepareServers()
  const isWhole = filters.length === 0
  const checks = isWhole ? await runChecks({ isQuick: isChanged }) : { passed: 0, failed: 0 }
  if (!isWhole) await turbo('build')
  const nightly = await nightlyFiles()
  const common = [DEFAULT, '--tags-filter=!nightly', ...projectsOf(isUnit, isChanged)]
  const named = [...changed, ...filters]
  const env = { ONCEWARD_LEFT_OUT: nightly.join(',') }
  const tests = await runTests({ args: named, common, env, repeats: isWhole })
  console.log(`\n${nightly.length} files and ${tests.leftOut} tests are left to npm run nightly`)
  const passed = checks.passed + tests.passed
  return report({ ...tests, passed, failed: checks.failed + tests.failed })
}

/** Test files that are left to `npm run nightly` whole. Vitest need not load them to leave them out. */
async function nightlyFiles() {
  const files = await git('grep', '--untracked', '-lE', '^// @module-tag nightly$', '--', TESTS)
  return files.split('\n').filter(Boolean)
}
