import { execFile } from 'node:child_process'
import { access, constants, rm, writeFile } from 'node:fs/promises'
import { delimiter, join } from 'node:path'
import { promisify } from 'node:util'
import { withLock } from '../redis/cache.ts'
import { ServerMissingError, type ServiceName } from './server.ts'

const run = promisify(execFile)

/** A program that a server needs, and the Debian package that brings it. */
export interface Tool {
  readonly command: string
  readonly package: string
  /** Directories to look in besides PATH. */
  readonly directories?: readonly string[] | undefined
}

/** What to say when a tool is missing and cannot be installed. */
export interface Need {
  readonly service: ServiceName
  readonly tools: readonly Tool[]
  readonly variable?: string | undefined
}

const POLICY = '/usr/sbin/policy-rc.d'
const SYSTEM_DIRECTORIES = ['/usr/local/sbin', '/usr/sbin', '/sbin', '/opt/homebrew/bin']

/** Paths of the tools by command; what is missing is installed when that needs no question. */
export async function toolPaths(need: Need): Promise<Readonly<Record<string, string>>> {
  const missing = await missingTools(need.tools)
  if (missing.length > 0) await withLock('apt', () => install(need))
  const paths = await Promise.all(need.tools.map(async (tool) => [tool.command, await find(tool)]))
  return Object.fromEntries(paths)
}

async function missingTools(tools: readonly Tool[]): Promise<Tool[]> {
  const found = await Promise.all(tools.map(find))
  return tools.filter((_, index) => found[index] === undefined)
}

async function find(tool: Tool): Promise<string | undefined> {
  const path = (process.env['PATH'] ?? '').split(delimiter).filter(Boolean)
  for (const directory of [...(tool.directories ?? []), ...path, ...SYSTEM_DIRECTORIES]) {
    const candidate = join(directory, tool.command)
    if (await isExecutable(candidate)) return candidate
  }
  return undefined
}

async function isExecutable(path: string): Promise<boolean> {
  return access(path, constants.X_OK).then(
    () => true,
    () => false,
  )
}

async function install(need: Need): Promise<void> {
  // Another process may have installed it while this one waited for the lock.
  const missing = await missingTools(need.tools)
  if (missing.length === 0) return
  const packages = missing.map((tool) => tool.package)
  const apt = await find({ command: 'apt-get', package: 'apt' })
  if (apt === undefined || process.getuid?.() !== 0) throw missingError(need, packages)
  process.stderr.write(
    `onceward: installing the Debian package ${packages.join(' and ')} for its ${need.service} tests\n`,
  )
  try {
    await withoutServiceStarts(() => aptInstall(apt, packages))
  } catch (error) {
    const { stderr = '', message } = error as Error & { stderr?: string }
    throw missingError(need, packages, stderr.trim() || message)
  }
}

async function aptInstall(apt: string, packages: readonly string[]): Promise<void> {
  const env = { ...process.env, DEBIAN_FRONTEND: 'noninteractive' }
  const wait = ['-o', 'DPkg::Lock::Timeout=300']
  const args = [...wait, 'install', '-y', '-q', '--no-install-recommends', ...packages]
  try {
    await run(apt, args, { env })
  } catch {
    // Package lists may be absent or older than the archive.
    await run(apt, [...wait, 'update', '-q'], { env })
    await run(apt, args, { env })
  }
}

/** Debian starts a service when its package is installed, unless this file says no. */
async function withoutServiceStarts(work: () => Promise<void>): Promise<void> {
  const ours = await writeFile(POLICY, '#!/bin/sh\nexit 101\n', { flag: 'wx', mode: 0o755 }).then(
    () => true,
    () => false,
  )
  try {
    await work()
  } finally {
    if (ours) await rm(POLICY, { force: true })
  }
}

function missingError(need: Need, packages: readonly string[], why = ''): ServerMissingError {
  const commands = need.tools.map((tool) => tool.command).join(' and ')
  const alternative =
    need.variable === undefined ? '' : `, or set ${need.variable} to a server of yours`
  const skip = `ONCEWARD_SKIP=${need.service} skips its tests.`
  const hint = `${need.service} needs ${commands}: install ${packages.join(' and ')}${alternative}.`
  return new ServerMissingError([hint, skip, why].filter(Boolean).join('\n'))
}
