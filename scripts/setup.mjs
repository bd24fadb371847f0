import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { pinnedNode, root, run } from './process.mjs'

function packagesOf(file) {
  return JSON.parse(readFileSync(join(root, file), 'utf8')).packages
}

/** Says whether what npm installed is what the lock file asks for. */
function isInstalled() {
  const installed = 'node_modules/.package-lock.json'
  if (!existsSync(join(root, installed)) || !existsSync(pinnedNode)) return false
  const have = packagesOf(installed)
  return Object.entries(packagesOf('package-lock.json')).every(([path, wanted]) => {
    if (path === '') return true
    const found = have[path]
    // npm leaves out what is for other platforms.
    if (found === undefined) return wanted.optional === true || wanted.devOptional === true
    return found.version === wanted.version && found.integrity === wanted.integrity
  })
}

/**
 * Installs the dependencies when they are missing or not those of the lock file.
 *
 * Warnings are left out: the machine's Node only starts this file, so its age is no news.
 *
 * @throws Error with npm's output when npm fails.
 */
export async function setup() {
  if (isInstalled()) return
  console.error('installing dependencies (once) …')
  const args = ['ci', '--loglevel=error', '--no-audit', '--no-fund', '--include=dev']
  const { code, output } = await run('npm', [...args, '--include=optional'], { quiet: true })
  if (code !== 0) throw new Error(`npm ci failed:\n${output}`)
}
