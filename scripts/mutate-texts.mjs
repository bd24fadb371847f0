import { cpSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { TEXT_TESTS } from '../mutation/groups.mjs'
import { root, run, tool } from './process.mjs'

const COPIED = [
  'packages',
  'mutation/vitest.config.ts',
  // A test applies it.
  'docs/least-privilege.sql',
  'package.json',
  'tsconfig.base.json',
  'tsconfig.test.json',
]

/** Takes words out of the Lua scripts, the SQL and the TypeScript, one at a time, in a copy; resolves with what became of each. */
export async function mutateTexts(group) {
  const sandbox = mkdtempSync(join(tmpdir(), 'onceward-mutation-'))
  const judged = []
  try {
    copy(sandbox)
    await mustPass(group, sandbox)
    for (const mutant of mutantsOf(group)) {
      const file = join(sandbox, mutant.file)
      const text = readFileSync(file, 'utf8')
      writeFileSync(file, mutated(mutant, text))
      const { code } = await runTests(group, sandbox, noticing(mutant))
      writeFileSync(file, text)
      console.log(
        ` ${code === 0 ? '✗ survived' : '✓ killed'}: ${mutant.file}: ${mutant.find.split('\n')[0]}`,
      )
      judged.push({ verdict: code === 0 ? 'survived' : 'killed', mutant })
    }
  } finally {
    rmSync(sandbox, { recursive: true, force: true })
  }
  return judged
}

function mutantsOf(group) {
  const all = JSON.parse(readFileSync(join(root, 'mutation/texts.json'), 'utf8'))
  return all.filter((mutant) => mutant.group === group)
}

/** The tests that a mutant names, of its own package: those that noticed it last time. Most are integration tests. */
function noticing({ file, tests = [] }) {
  const [source] = /^packages\/[^/]+\/src/.exec(file)
  return tests.map((name) => `${source}/${name}${name.endsWith('.test') ? '' : '.int.test'}.ts`)
}

/** @throws Error when the words are not there any more. */
function mutated({ file, find, replace }, text) {
  if (!text.includes(find))
    throw new Error(`${file} has no longer the words of its mutant: ${find}`)
  return text.replace(find, () => replace)
}

function copy(sandbox) {
  for (const path of COPIED) {
    cpSync(join(root, path), join(sandbox, path), {
      recursive: true,
      filter: (source) => !/\/(node_modules|dist|\.turbo)$/.test(source),
    })
  }
  symlinkSync(join(root, 'node_modules'), join(sandbox, 'node_modules'))
}

async function mustPass(group, sandbox) {
  const named = TEXT_TESTS[group].length === 0 ? mutantsOf(group).flatMap(noticing) : []
  const { code, output } = await runTests(group, sandbox, [...new Set(named)])
  if (code !== 0) throw new Error(`the tests of ${group} fail without a mutant:\n${output}`)
}

/** Until some fail. */
async function runTests(group, sandbox, first = []) {
  const stages = first.length === 0 ? TEXT_TESTS[group] : [first, ...TEXT_TESTS[group]]
  for (const tests of stages) {
    const ended = await runSome(tests, sandbox)
    if (ended.code !== 0) return ended
  }
  return { code: 0, output: '' }
}

/** @throws Error when there is no such test: that must not count as a mutant that was noticed. */
async function runSome(tests, sandbox) {
  const args = ['run', '--config', 'mutation/vitest.config.ts', '--bail', '1', ...tests]
  const group = { tests: ['packages/*/src/**/*.test.ts'], servers: true }
  const ended = await run(tool('vitest'), args, {
    cwd: sandbox,
    quiet: true,
    env: { ONCEWARD_MUTATION_GROUP: JSON.stringify(group) },
  })
  if (ended.output.includes('No test files found')) throw new Error(ended.output)
  return ended
}
