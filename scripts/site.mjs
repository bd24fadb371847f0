import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { pinnedNode, root, run } from './process.mjs'

const directory = join(root, 'site')
const vitepress = 'node_modules/vitepress/bin/vitepress.js'
const lockOf = (file) => {
  const path = join(directory, file)
  return existsSync(path) ? JSON.parse(readFileSync(path, 'utf8')).packages : {}
}

/** Whether what the lock file names is installed; npm leaves out what is for other platforms. */
function isInstalled() {
  const have = lockOf('node_modules/.package-lock.json')
  return Object.entries(lockOf('package-lock.json')).every(
    ([path, { optional, version }]) =>
      path === '' || have[path]?.version === version || (optional && have[path] === undefined),
  )
}

/** What draws the pages is installed only by those who build them. */
async function install() {
  if (isInstalled()) return
  const args = ['ci', '--ignore-scripts', '--no-audit', '--no-fund', '--loglevel=error']
  const { code, output } = await run('npm', args, { cwd: directory, quiet: true })
  if (code !== 0) throw new Error(`npm ci in site/ failed:\n${output}`)
}

async function inSite(...args) {
  const { code } = await run(pinnedNode, args, { cwd: directory })
  return code
}

const BUILD = [
  ['node_modules/typescript/bin/tsc', '--project', 'tsconfig.json'],
  ['reference.ts'],
  [vitepress, 'build', '.'],
  ['check.ts'],
]

/**
 * `npm run site`: the API reference and the documents as pages in `site/dist`, and fails if a link is dead. With
 * `-- dev`: serves the pages, and shows each change of a document at once.
 */
export async function site(args) {
  await install()
  if (args[0] === 'dev') return inSite(vitepress, 'dev', '.', ...args.slice(1))
  for (const step of BUILD) {
    const code = await inSite(...step)
    if (code !== 0) return code
  }
  return 0
}
