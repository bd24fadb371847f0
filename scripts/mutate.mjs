import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { mutateFences } from './mutate-fences.mjs'
import { pinnedNode, root, run } from './process.mjs'

const directory = join(root, 'mutation')
const stryker = join(directory, 'node_modules/@stryker-mutator/core/bin/stryker.js')

/**
 * `npm run mutate`: Stryker changes the rooms of core that `mutation/stryker.config.json` names, one small change at a
 * time, prints those that no unit test notices, and fails below its score. With `-- FILE …`: only these files. With
 * `-- fences`: takes the fences out of the SQL and the Lua, and fails if no test on a real server notices.
 */
export async function mutate(args) {
  if (args.includes('fences')) return mutateFences()
  await install()
  const files = args.length === 0 ? [] : ['--mutate', args.join(',')]
  const { code } = await run(pinnedNode, [
    ...[stryker, 'run', join(directory, 'stryker.config.json')],
    ...files,
  ])
  return code
}

/** Stryker is installed only by those who use it. */
async function install() {
  if (existsSync(stryker)) return
  const args = ['ci', '--ignore-scripts', '--legacy-peer-deps', '--no-audit', '--no-fund']
  const { code, output } = await run('npm', args, { cwd: directory, quiet: true })
  if (code !== 0) throw new Error(`npm ci failed:\n${output}`)
}
