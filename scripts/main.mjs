import { join } from 'node:path'
import { turbo } from './build.mjs'
import { runAllChecks } from './checks.mjs'
import { crashTestOf, crashTests, HTTP_CRASH_TEST } from './crash-tests.mjs'
import { mutate } from './mutate.mjs'
import { nightly } from './nightly.mjs'
import { fromSource, pinnedNode, root, run, tool } from './process.mjs'
import { release } from './release.mjs'
import { setup } from './setup.mjs'
import { site } from './site.mjs'
import { test } from './test.mjs'

// kafkajs sets timers of negative length; Node would say so once per process, and nobody can change it.
const QUIET = '--disable-warning=TimeoutNegativeWarning'

async function runFromSource(file, args) {
  const { code } = await run(pinnedNode, [fromSource, QUIET, join(root, file), ...args])
  return code
}

/** Every scenario of the crash tests, of which `npm test` plays a sample; of one broker or of all. */
async function crashMatrix(args) {
  const broker = args[args.indexOf('--broker') + 1]
  const isOne = args.includes('--broker') && broker !== 'all'
  const isHttp = args.includes('--http')
  const files = isHttp ? [HTTP_CRASH_TEST] : isOne ? [crashTestOf(broker)] : crashTests()
  const env = { ONCEWARD_CRASH_MATRIX: 'all' }
  const { code } = await run(tool('vitest'), ['run', '--project=e2e', ...files], { env })
  return code
}

/** The reports are made of `dist`, so it is built first. */
async function api(args) {
  const { code, output } = await turbo('build')
  return code === 0 ? runFromSource('scripts/api.ts', args) : report({ code, output })
}

/** A client with a native module is built first. */
async function demo(args) {
  const client = args[args.indexOf('--client') + 1] ?? ''
  const isNative = args.includes('--client') && client.startsWith('confluent')
  const code = isNative ? await runFromSource('scripts/confluent.ts', []) : 0
  return code === 0 ? runFromSource('test-e2e/demo/main.ts', args) : code
}

function report({ code, output }) {
  if (code !== 0) console.log(output)
  return code
}

const COMMANDS = {
  build: async () => report(await turbo('build')),
  check: async () => ((await runAllChecks()).failed === 0 ? 0 : 1),
  docs: (args) => runFromSource('scripts/docs.ts', args),
  api,
  'build:confluent': (args) => runFromSource('scripts/confluent.ts', args),
  demo,
  servers: (args) => runFromSource('test-e2e/examples/main.ts', args),
  bench: (args) => runFromSource('bench/runner/run.ts', args),
  soak: (args) => runFromSource('test-e2e/soak/main.ts', args),
  simulate: (args) => runFromSource('test-e2e/simulation/run/main.ts', args),
  fuzz: (args) => runFromSource('test-e2e/fuzz/main.ts', args),
  crash: (args) =>
    args.includes('--matrix') ? crashMatrix(args) : runFromSource('test-e2e/crash/main.ts', args),
  mutate,
  release,
  site,
  test,
  nightly,
  'test:compose': (args) => runFromSource('scripts/compose.mjs', args),
}

const [name = '', ...args] = process.argv.slice(2)
const command = COMMANDS[name]
if (command === undefined) {
  console.error(`usage: node scripts/main.mjs ${Object.keys(COMMANDS).join('|')} [arguments]`)
  process.exit(2)
}

try {
  await setup()
  process.exitCode = await command(args)
} catch (error) {
  console.error(error instanceof Error ? error.message : error)
  if (name === 'test' || name === 'nightly') console.log('\n0 passed, 1 failed')
  process.exitCode = 1
}
