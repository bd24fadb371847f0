import { turbo } from './build.mjs'
import { fromSource, pinnedNode, run, tool } from './process.mjs'

const quietly = (name, args) => () => run(tool(name), args, { quiet: true })

async function compileExamples() {
  const { code, output } = await run(pinnedNode, ['scripts/examples.ts'], { quiet: true })
  return code === 0 ? run(tool('tsc'), ['-p', output], { quiet: true }) : { code, output }
}

const BUILD = { title: 'the packages build', check: () => turbo('build') }

/** What is checked besides the tests and the build; each check counts as one test. */
const CHECKS = [
  { title: 'types hold, in tests too', check: quietly('tsc', ['-p', 'tsconfig.test.json']) },
  { title: 'the examples in comments compile', check: compileExamples },
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
    title: 'no file, export or dependency is unused',
    check: quietly('knip', ['--no-progress', '--no-config-hints']),
    isForLanding: true,
  },
  {
    title: 'the packages can be published',
    check: () => turbo('check', ['--only']),
    isForLanding: true,
  },
]

/**
 * Runs all checks, also after one failed, and prints the output of those that failed. After the build they run side by
 * side, because some use one processor only.
 *
 * @param options.isQuick - Leaves out what only matters before a change lands.
 */
export async function runChecks({ isQuick = false } = {}) {
  const counts = { passed: 0, failed: 0 }
  const report = async ({ title, check }) => {
    const { code, output } = await check()
    console.log(` ${code === 0 ? '✓' : '✗'} check: ${title}`)
    if (code !== 0) console.log(output)
    counts[code === 0 ? 'passed' : 'failed'] += 1
  }
  await report(BUILD)
  await Promise.all(CHECKS.filter(({ isForLanding }) => !(isQuick && isForLanding)).map(report))
  return counts
}
