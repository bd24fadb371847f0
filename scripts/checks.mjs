import { turbo } from './build.mjs'
import { fromSource, pinnedNode, run, tool } from './process.mjs'

const quietly = (name, args) => () => run(tool(name), args, { quiet: true })

/** What is checked besides the tests; each check counts as one test. */
const CHECKS = [
  { title: 'the packages build', check: () => turbo('build') },
  { title: 'types hold, in tests too', check: quietly('tsc', ['-p', 'tsconfig.test.json']) },
  {
    title: 'format, layers and circles are in order',
    check: quietly('biome', ['ci', '--colors=off', '--max-diagnostics=200', '.']),
  },
  { title: 'no promise is forgotten', check: quietly('oxlint', []) },
  {
    title: 'the public surface is as its report says',
    check: () => run(pinnedNode, [fromSource, 'scripts/api.ts', '--check'], { quiet: true }),
  },
  {
    title: 'the packages can be published',
    check: () => turbo('check', ['--only']),
    isForLanding: true,
  },
]

/**
 * Runs all checks, also after one failed, and prints the output of those that failed.
 *
 * @param options.isQuick - Leaves out what only matters before a change lands.
 */
export async function runChecks({ isQuick = false } = {}) {
  const counts = { passed: 0, failed: 0 }
  for (const { title, check, isForLanding } of CHECKS) {
    if (isQuick && isForLanding) continue
    const { code, output } = await check()
    console.log(` ${code === 0 ? '✓' : '✗'} check: ${title}`)
    if (code !== 0) console.log(output)
    counts[code === 0 ? 'passed' : 'failed'] += 1
  }
  return counts
}
