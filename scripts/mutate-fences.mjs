import { cpSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { root, run, tool } from './process.mjs'

const COPIED = [
  'packages',
  'package.json',
  'vitest.config.ts',
  'tsconfig.base.json',
  'tsconfig.test.json',
  // The configuration imports the one, and a test applies the other.
  'test-e2e/support/dice.ts',
  'docs/least-privilege.sql',
]

/**
 * Takes the fences of mutation/fences.json out of the SQL and the Lua, one at a time, in a copy of the packages. The tests
 * that a fence names must fail. Before that they must pass.
 *
 * @returns The exit code.
 */
export async function mutateFences() {
  const fences = JSON.parse(readFileSync(join(root, 'mutation/fences.json'), 'utf8'))
  const copy = mkdtempSync(join(tmpdir(), 'onceward-fences-'))
  try {
    copyPackages(copy)
    const sound = await runTests(copy, [...new Set(fences.flatMap(({ tests }) => tests))])
    if (sound.code !== 0) throw new Error(`the tests fail with every fence:\n${sound.output}`)
    let survivors = 0
    for (const fence of fences) {
      const isNoticed = await without(fence, copy)
      console.log(` ${isNoticed ? '✓' : '✗ survived'}: ${fence.file}: ${fence.find.trim()}`)
      if (!isNoticed) survivors += 1
    }
    console.log(`\n${fences.length - survivors} killed, ${survivors} survived`)
    return survivors === 0 ? 0 : 1
  } finally {
    rmSync(copy, { recursive: true, force: true })
  }
}

/** Says whether a test fails without the fence. */
async function without({ file, find, replace, tests }, copy) {
  const path = join(copy, file)
  const text = readFileSync(path, 'utf8')
  if (!text.includes(find)) throw new Error(`mutation/fences.json: ${file} has no longer: ${find}`)
  writeFileSync(
    path,
    text.replace(find, () => replace),
  )
  const { code } = await runTests(copy, tests)
  writeFileSync(path, text)
  return code !== 0
}

/** The modules of the packages are found through the copy, so that a test sees the changed ones. */
function copyPackages(copy) {
  for (const path of COPIED) {
    cpSync(join(root, path), join(copy, path), {
      recursive: true,
      filter: (source) => !/\/(node_modules|dist|\.turbo)$/.test(source),
    })
  }
  symlinkSync(join(root, 'node_modules'), join(copy, 'node_modules'))
}

async function runTests(copy, tests) {
  // What waits forever without its fence counts as noticed.
  const args = ['run', '--project=int', '--bail=1', '--testTimeout=30000', ...tests]
  const ended = await run(tool('vitest'), args, { cwd: copy, quiet: true })
  if (ended.output.includes('No test files found')) throw new Error(ended.output)
  return ended
}
