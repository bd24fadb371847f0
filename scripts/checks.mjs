import { turbo } from './build.mjs'

const BUILD = { title: 'the packages build', check: () => turbo('build') }

/**
 * What is checked besides the tests and the build; each check counts as one test. Turbo runs what a change may have
 * touched, and repeats the other results.
 */
const CHECKS = [
  { title: 'types hold, in tests too', task: 'check:types' },
  { title: 'the examples in comments compile', task: 'check:examples' },
  { title: 'format, layers and circles are in order', task: 'check:style' },
  { title: 'no promise is forgotten', task: 'check:promises' },
  { title: 'the public surface is as its report says', task: 'check:surface' },
  { title: 'no file, export or dependency is unused', task: 'check:unused', isForLanding: true },
].map((check) => ({ ...check, check: () => turbo(check.task, ['--only']) }))

/** Packs each package for two linters, which is dear: `npm run check`, the night and the release do it. */
const PUBLISHING = {
  title: 'the packages can be published',
  check: () => turbo('check', ['--only']),
}

/**
 * Runs checks, also after one failed, and prints the output of those that failed. After the build they run side by
 * side, because some use one processor only.
 *
 * @param options.isQuick - Leaves out what only matters before a change lands.
 */
export async function runChecks({ isQuick = false } = {}) {
  return run(CHECKS.filter(({ isForLanding }) => !(isQuick && isForLanding)))
}

/** Also lints the packages as npm would publish them. */
export const runAllChecks = () => run([...CHECKS, PUBLISHING])

/** Lints the packages alone. */
export const checkPublishing = () => run([PUBLISHING])

async function run(checks) {
  const counts = { passed: 0, failed: 0 }
  const report = async ({ title, check }) => {
    const { code, output } = await check()
    console.log(` ${code === 0 ? '✓' : '✗'} check: ${title}`)
    if (code !== 0) console.log(output)
    counts[code === 0 ? 'passed' : 'failed'] += 1
  }
  await report(BUILD)
  await Promise.all(checks.map(report))
  return counts
}
