import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { basename, join } from 'node:path'
import { GROUPS, TEXT_TESTS } from '../mutation/groups.mjs'
import { mutateTexts } from './mutate-texts.mjs'
import { pinnedNode, root, run } from './process.mjs'

const directory = join(root, 'mutation')
const stryker = join(directory, 'node_modules/@stryker-mutator/core/bin/stryker.js')

const NAMES = [...Object.keys(GROUPS), ...Object.keys(TEXT_TESTS)]

const ALL = 'all'
/** Lines of Stryker's output that an error shows. */
const SHOWN_LINES = 40

/**
 * `npm run mutate -- group[/file[,file]] …`, for example `core/claim,complete sqs lua`; `all` for all groups, which takes many hours.
 *
 * Changes the code in small ways, runs the tests on each change and prints the changes that no test notices.
 */
export async function mutate(args) {
  if (args.length === 0) throw new Error(`say what to mutate: ${ALL}, ${NAMES.join(', ')}`)
  const counts = { killed: 0, survived: 0 }
  for (const argument of args.includes(ALL) ? NAMES : args) {
    for (const { verdict, mutant } of await judged(argument)) {
      counts[verdict] += 1
      if (verdict === 'survived') console.log(JSON.stringify(mutant))
    }
  }
  const { killed, survived } = counts
  const score = (100 * killed) / Math.max(1, killed + survived)
  console.log(`\n${killed} killed, ${survived} survived: score ${score.toFixed(1)}`)
  return 0
}

async function judged(argument) {
  if (argument in TEXT_TESTS) return mutateTexts(argument)
  const [name, list] = argument.split('/')
  const group = GROUPS[name]
  const wanted = list?.split(',')
  const files = group?.files.filter((path) => wanted?.includes(basename(path, '.ts')) ?? true)
  if (files === undefined || files.length < (wanted?.length ?? 1)) {
    throw new Error(`no such file to mutate in ${argument}; the groups are ${NAMES.join(', ')}`)
  }
  if (group.leftOut !== undefined) {
    console.log(`${name} is left out. ${group.leftOut}`)
    return []
  }
  await install()
  return judge(await strykerReport({ ...group, files }))
}

async function install() {
  if (existsSync(stryker)) return
  const args = ['ci', '--ignore-scripts', '--legacy-peer-deps', '--no-audit', '--no-fund']
  const { code, output } = await run('npm', args, { cwd: directory, quiet: true })
  if (code !== 0) throw new Error(`npm ci failed:\n${output}`)
}

async function strykerReport(group) {
  const temporary = mkdtempSync(join(tmpdir(), 'onceward-mutation-'))
  const fileName = join(temporary, 'report.json')
  const file = join(temporary, 'stryker.config.json')
  writeFileSync(file, JSON.stringify(configuration(group, { temporary, fileName })))
  try {
    const { code, output } = await run(pinnedNode, [stryker, 'run', file], {
      env: { ONCEWARD_MUTATION_GROUP: JSON.stringify(group) },
      copied: true,
    })
    if (code !== 0) {
      const end = output.split('\n').slice(-SHOWN_LINES).join('\n')
      throw new Error(`Stryker failed with code ${code}:\n${end}`)
    }
    return JSON.parse(readFileSync(fileName, 'utf8'))
  } finally {
    rmSync(temporary, { recursive: true, force: true })
  }
}

const configuration = (group, { temporary, fileName }) => ({
  testRunner: 'vitest',
  plugins: [join(directory, 'node_modules/@stryker-mutator/vitest-runner/dist/src/index.js')],
  vitest: { configFile: 'mutation/vitest.config.ts', related: true },
  mutate: group.files,
  // TypeScript 7 has not the API with which Stryker would rewrite it, and Vitest does not read it.
  tsconfigFile: 'none',
  coverageAnalysis: 'perTest',
  // Two test runs at once would share the servers and the processor.
  concurrency: 1,
  // What hangs counts as noticed; a busy machine is not to be taken for that.
  timeoutMS: 30_000,
  // The tests of the core alone take longer than the default of 5 on a busy machine.
  dryRunTimeoutMinutes: 30,
  ignorePatterns: ['**/dist', 'mutation/node_modules'],
  reporters: ['json', 'progress-append-only'],
  jsonReporter: { fileName },
  tempDirName: join(temporary, 'sandbox'),
  // Texts are for people; what they must contain is tested where it matters.
  mutator: { excludedMutations: ['StringLiteral'] },
})

/** Every mutant with what became of it. */
function judge({ files }) {
  return Object.entries(files).flatMap(([file, { source, mutants }]) => {
    const lines = source.split('\n')
    return mutants.flatMap(({ status, replacement, location }) => {
      if (status === 'Killed' || status === 'Timeout') return [{ verdict: 'killed' }]
      if (status !== 'Survived' && status !== 'NoCoverage') return []
      const mutant = {
        file,
        line: lines[location.start.line - 1].trim(),
        becomes: replacement.replaceAll(/\s+/g, ' ').slice(0, 160),
      }
      return [{ verdict: 'survived', mutant }]
    })
  })
}
