import { mkdir, readFile, rename, rm, writeFile } from 'node:fs/promises'
import { homedir } from 'node:os'
import { join } from 'node:path'
import { until } from '../../until.ts'

const LOCK_DEADLINE_MS = 10 * 60_000

/** Where downloads are kept between runs: `ONCEWARD_CACHE`, else the cache directory of the user. */
export async function cacheDirectory(): Promise<string> {
  const home = process.env['XDG_CACHE_HOME'] || join(homedir(), '.cache')
  const directory = process.env['ONCEWARD_CACHE'] || join(home, 'onceward')
  await mkdir(directory, { recursive: true })
  return directory
}

/** Runs `work` while no other process on this machine runs work under the same name. */
export async function withLock<T>(name: string, work: () => Promise<T>): Promise<T> {
  const lock = join(await cacheDirectory(), `${name}.lock`)
  await until(() => acquired(lock), {
    what: `the lock ${lock}`,
    deadlineMs: LOCK_DEADLINE_MS,
    everyMs: 100,
  })
  try {
    return await work()
  } finally {
    await rm(lock, { force: true })
  }
}

async function acquired(lock: string): Promise<boolean> {
  try {
    await writeFile(lock, String(process.pid), { flag: 'wx' })
    return true
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error
  }
  const holder = Number(await readFile(lock, 'utf8'))
  // Zero: its holder is between creating and writing it.
  if (holder > 0 && !alive(holder)) await rename(lock, `${lock}.${holder}`)
  return false
}

function alive(pid: number): boolean {
  try {
    process.kill(pid, 0)
    return true
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'EPERM'
  }
}
