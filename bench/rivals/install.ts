import { execFile } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { promisify } from 'node:util'

const run = promisify(execFile)

interface Manifest {
  readonly version?: string
  readonly dependencies: Readonly<Record<string, string>>
}

/** Installs the rivals if they are missing or differ from the lock file; resolves with their versions. */
export async function installRivals(): Promise<Readonly<Record<string, string>>> {
  const { dependencies } = manifest('package.json')
  const names = Object.keys(dependencies)
  if (names.some((name) => installed(name) !== dependencies[name])) {
    console.error('installing rivals (once) …')
    const args = ['ci', '--ignore-scripts', '--legacy-peer-deps', '--no-audit', '--no-fund']
    await run('npm', args, { cwd: import.meta.dirname })
  }
  return dependencies
}

function installed(name: string): string | undefined {
  try {
    return manifest(join('node_modules', name, 'package.json')).version
  } catch {
    return undefined
  }
}

function manifest(file: string): Manifest {
  return JSON.parse(readFileSync(join(import.meta.dirname, file), 'utf8'))
}
