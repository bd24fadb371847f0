import { execFile } from 'node:child_process'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { UsageError } from '../support/command-line.ts'
import { linkModules } from '../support/link-modules.ts'

const root = join(import.meta.dirname, '../..')
const exec = promisify(execFile)

/** The code of an earlier commit, with the libraries that are installed now. */
export interface OlderRelease extends AsyncDisposable {
  /** The script of its worker. */
  readonly worker: string
}

/** @throws {@link UsageError} if the code cannot be checked out, for instance because the repository lacks the commit. */
export async function checkOutRelease(commit: string): Promise<OlderRelease> {
  const path = await mkdtemp(join(tmpdir(), 'onceward-release-'))
  const archive = join(path, 'release.tar')
  try {
    await exec('git', ['archive', `--output=${archive}`, '--end-of-options', commit], { cwd: root })
    await exec('tar', ['xf', archive, '-C', path])
    await linkModules(path)
  } catch (error) {
    await rm(path, { recursive: true, force: true })
    const { stderr = '' } = error as { readonly stderr?: string }
    throw new UsageError(`the code of ${commit} could not be checked out: ${stderr || error}`)
  }
  return {
    worker: join(path, 'test-e2e/worker.ts'),
    [Symbol.asyncDispose]: () => rm(path, { recursive: true, force: true }),
  }
}
