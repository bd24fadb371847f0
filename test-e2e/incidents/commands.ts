import { execFile } from 'node:child_process'
import { join } from 'node:path'

const ROOT = join(import.meta.dirname, '../..')

/** A release of onceward on disk. */
export interface Release {
  /** Directory of the repository. */
  readonly root: string
  /** Arguments of Node with which its programs run. */
  readonly node: readonly string[]
  /** The command line, in `root`. */
  readonly program: string
}

/** This release, as `npm run build` makes it. */
export const BUILT: Release = { root: ROOT, node: [], program: 'packages/onceward/bin/onceward.js' }

/** A release that is not built: its sources. */
export const fromSource = (root: string): Release => ({
  root,
  node: ['--conditions=@onceward/source'],
  program: 'packages/onceward/src/index.ts',
})

/** Everything that `command` prints, as on a terminal. `npx onceward` is the program of the release. */
export function printed(
  command: string,
  { node, program, root }: Release,
  env: Readonly<Record<string, string>>,
): Promise<string> {
  const words = [process.execPath, ...node, join(root, program)].map((word) => `'${word}'`)
  const script = `exec 2>&1\nnpx() { shift; ${words.join(' ')} "$@"; }\n${command}\n`
  const { PATH = '' } = process.env
  return new Promise((resolve) => {
    // An exit code of its own is part of the incident, not of the test.
    execFile('bash', ['-c', script], { env: { PATH, ...env } }, (_, stdout) => resolve(stdout))
  })
}
