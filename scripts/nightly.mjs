import { turbo } from './build.mjs'
import { checkPublishing } from './checks.mjs'
import { crashTests, HTTP_CRASH_TEST } from './crash-tests.mjs'
import { mutate } from './mutate.mjs'
import { fromSource, pinnedNode, run } from './process.mjs'
import { git, prepareServers, report } from './test.mjs'
import { runTests } from './vitest.mjs'

const SCHEDULES = 200_000
const SCHEDULES_OF_CALLERS = 50_000
const MINUTES = 10
const FORMS = ['handlers', 'hangs', 'bytes', 'configurations']

/** Long commands from a seed that turns with the commit. Each counts as one test. */
function campaignsOf(seed) {
  const simulate = (...args) => ['test-e2e/simulation/run/main.ts', ...args, '--seed', seed]
  const fuzz = (name) => ['test-e2e/fuzz/main.ts', name, '--minutes', `${MINUTES}`, '--seed', seed]
  return [
    simulate('--schedules', `${SCHEDULES}`),
    simulate('--callers', '--schedules', `${SCHEDULES_OF_CALLERS}`),
    ...FORMS.map(fuzz),
  ]
}

/** Workers on Kafka take turns with its clients. */
const EACH_CLIENT = { ONCEWARD_KAFKA_CLIENT: 'each' }

/** The tests that `npm test` leaves out: files with `@module-tag nightly`, and single tests with that tag. */
async function runTagged(filters) {
  const pattern = "^// @module-tag nightly$|tags: 'nightly'|tags: \\['nightly'\\]|turnOf\\("
  const files = await git('grep', '--untracked', '-lE', pattern, '--', '*.test.ts')
  const named = files
    .split('\n')
    .filter((file) => filters.length === 0 || filters.some((filter) => file.includes(filter)))
  if (named.length === 0) throw new Error(`no nightly test has ${filters.join(' or ')} in its path`)
  const common = ['--reporter=verbose', '--hideSkippedTests', '--tags-filter=nightly']
  return runTests({ args: named, common, env: EACH_CLIENT })
}

/** Every scenario of the crash tests, of which `npm test` plays a sample. */
const runCrashMatrix = () =>
  runTests({
    args: [...crashTests(), HTTP_CRASH_TEST],
    common: ['--project=e2e', '--reporter=default'],
    env: { ...EACH_CLIENT, ONCEWARD_CRASH_MATRIX: 'all' },
  })

async function runCampaigns() {
  const counts = { passed: 0, failed: 0 }
  const count = (code, title) => {
    console.log(` ${code === 0 ? '✓' : '✗'} ${title}`)
    counts[code === 0 ? 'passed' : 'failed'] += 1
  }
  const commit = (await git('rev-parse', 'HEAD')) || '1'
  for (const args of campaignsOf(`${Number.parseInt(commit.slice(0, 7), 16)}`)) {
    const { code } = await run(pinnedNode, [fromSource, ...args])
    count(code, args.join(' '))
  }
  count(await mutate([]), 'unit tests notice most changes of four rooms of core')
  count(await mutate(['fences']), 'a test notices every fence that is taken out')
  return counts
}

/**
 * `npm run nightly`: what `npm test` leaves out, the whole crash matrix, and the long campaigns. With a filter: only the
 * tests it names.
 *
 * @returns The exit code; the last line printed is `N passed, N failed`.
 */
export async function nightly(filters) {
  await prepareServers({ isNight: true })
  await turbo('build')
  const tests = [await runTagged(filters)]
  const counts = [...tests]
  if (filters.length === 0) {
    tests.push(await runCrashMatrix())
    counts.push(tests[1], await checkPublishing(), await runCampaigns())
  }
  const sum = (name) => counts.reduce((total, each) => total + each[name], 0)
  const joined = (name) => tests.flatMap((each) => each[name])
  return report({
    passed: sum('passed'),
    failed: sum('failed'),
    flaky: joined('flaky'),
    skipped: joined('skipped'),
  })
}
