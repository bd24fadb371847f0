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

/** Says how far npm is: on a terminal every second in one line, elsewhere once in 15 seconds. */
function showProgress() {
  const { isTTY } = process.stderr
  const paths = Object.keys(packagesOf('package-lock.json')).filter((path) => path !== '')
  const startedAtMs = Date.now()
  const say = () => {
    const there = paths.filter((path) => existsSync(join(root, path, 'package.json'))).length
    const seconds = Math.round((Date.now() - startedAtMs) / 1_000)
    const text = `installing dependencies (once): ${there} of ${paths.length} packages, ${seconds} s …`
    process.stderr.write(isTTY ? `\r\u001b[2K${text}` : `${text}\n`)
  }
  say()
  const timer = setInterval(say, isTTY ? 1_000 : 15_000)
  return () => {
    clearInterval(timer)
    if (isTTY) process.stderr.write('\n')
  }
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
  const end = showProgress()
  const args = ['ci', '--loglevel=error', '--no-audit', '--no-fund', '--include=dev']
  const { code, output } = await run('npm', [...args, '--include=optional'], { quiet: true })
  end()
  if (code !== 0) throw new Error(`npm ci failed:\n${output}`)
}
