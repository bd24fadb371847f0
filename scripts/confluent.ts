import { type ExecFileException, execFile } from 'node:child_process'
import { randomUUID } from 'node:crypto'
import { existsSync, lstatSync, readFileSync, realpathSync } from 'node:fs'
import { cp, mkdir, rename, rm, symlink } from 'node:fs/promises'
import { createRequire } from 'node:module'
import { delimiter, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { cacheDirectory, withLock } from '../packages/testing/src/servers/redis/cache.ts'

const exec = promisify(execFile)

const NAME = '@confluentinc/kafka-javascript'
const MODULE = 'confluent-kafka-javascript'
const modules = fileURLToPath(new URL('../node_modules', import.meta.url))
const folder = join(modules, NAME)

/** Features of librdkafka (TLS, OAuth, codecs) that are left out without them; by the header that each brings. */
const LIBRARIES = {
  'openssl/ssl.h': 'libssl-dev',
  'zlib.h': 'zlib1g-dev',
  'zstd.h': 'libzstd-dev',
  'lz4.h': 'liblz4-dev',
  'sasl/sasl.h': 'libsasl2-dev',
  'curl/curl.h': 'libcurl4-openssl-dev',
}
/** What is kept of the build, by the folder inside of `build/` in which the module looks for it. */
const BUILT = {
  [`Release/${MODULE}.node`]: 'Release',
  'deps/librdkafka.so.1': 'deps',
  'deps/librdkafka++.so.1': 'deps',
}

const say = (text: string): boolean => process.stderr.write(`onceward: ${text}\n`)

function versionOf(name: string): string {
  return JSON.parse(readFileSync(join(modules, name, 'package.json'), 'utf8')).version
}

async function run(command: string, args: readonly string[], cwd: string): Promise<string> {
  const env: NodeJS.ProcessEnv = { ...process.env, DEBIAN_FRONTEND: 'noninteractive' }
  env['CKJS_LINKING'] = 'dynamic'
  // Several jobs of make would start before librdkafka is configured.
  delete env['JOBS']
  // npm hands its setting on, and node-gyp prefers it to its option: the headers of another Node.
  delete env['npm_config_nodedir']
  const { stdout } = await exec(command, args, { cwd, env, maxBuffer: 64 * 1024 * 1024 })
  return stdout.trim()
}

function isBuilt(): boolean {
  try {
    createRequire(import.meta.url)(NAME)
    return true
  } catch {
    return false
  }
}

/** Where the module of this version, for this Node, is kept between runs. */
async function placeInCache(): Promise<string> {
  const node = `node${process.versions.modules}-${process.platform}-${process.arch}`
  return join(await cacheDirectory(), `${MODULE}-${versionOf(NAME)}-${node}`)
}

/** The files of node_modules may be shared with other checkouts, so none is written: a link is added. */
async function link(cached: string): Promise<void> {
  const build = join(folder, 'build')
  // A build that does not load, or a link to a cache that is gone.
  if (lstatSync(build, { throwIfNoEntry: false }) !== undefined)
    await rm(build, { recursive: true })
  await symlink(cached, build)
}

async function installLibraries(): Promise<void> {
  const missing = Object.entries(LIBRARIES)
    .filter(([header]) => !existsSync(join('/usr/include', header)))
    .filter(([header]) => !existsSync(join(`/usr/include/x86_64-linux-gnu`, header)))
    .map(([, name]) => name)
  if (missing.length === 0) return
  if (process.getuid?.() === 0 && existsSync('/usr/bin/apt-get')) {
    say(`installing the Debian packages ${missing.join(' ')} to build ${NAME}`)
    const install = ['install', '-y', '-q', '--no-install-recommends', ...missing]
    const installed = await run('apt-get', install, '/')
      .catch(() => run('apt-get', ['update', '-q'], '/').then(() => run('apt-get', install, '/')))
      .then(() => true)
      .catch(() => false)
    if (installed) return
  }
  say(`${NAME} is built without features that need ${missing.join(' ')}`)
}

/** The headers of the pinned Node, which its package for the platform carries. */
async function fetchHeaders(draft: string): Promise<string> {
  const name = `node-${process.platform}-${process.arch}@${versionOf('node')}`
  const packed = await run('npm', ['pack', name, '--silent'], draft)
  const headers = join(draft, 'node')
  await mkdir(headers)
  const args = ['xzf', packed, '--strip-components=1', '-C', headers, 'package/include']
  await run('tar', args, draft)
  return headers
}

/** That of npm itself. The pinned Node has no npm of its own. */
function nodeGyp(): string {
  const onPath = (process.env['PATH'] ?? '').split(delimiter).map((place) => join(place, 'npm'))
  const npm = process.env['npm_execpath'] ?? onPath.find((file) => existsSync(file))
  if (npm === undefined) throw new Error('npm is not on PATH')
  return createRequire(realpathSync(npm)).resolve('node-gyp/bin/node-gyp.js')
}

/** A minute on an idle machine with two cores. */
async function build(cached: string): Promise<void> {
  const draft = `${cached}-${randomUUID()}`
  await mkdir(draft)
  try {
    await installLibraries()
    say(`building ${NAME} ${versionOf(NAME)} in ${draft} (once)`)
    const gyp = nodeGyp()
    const headers = await fetchHeaders(draft)
    const copy = join(draft, 'package')
    await cp(folder, copy, { recursive: true })
    await rm(join(copy, 'build'), { recursive: true, force: true })
    await cp(join(modules, 'nan'), join(copy, 'node_modules/nan'), { recursive: true })
    await run(process.execPath, [gyp, 'rebuild', `--nodedir=${headers}`], copy)
    const kept = join(draft, 'build')
    for (const [file, directory] of Object.entries(BUILT)) {
      await mkdir(join(kept, directory), { recursive: true })
      await rename(join(copy, 'build', file), join(kept, file))
    }
    await rename(kept, cached)
  } finally {
    await rm(draft, { recursive: true, force: true })
  }
}

function explain(error: unknown): string {
  const { message, stderr = '' } = error as ExecFileException
  return [message.split('\n')[0], ...stderr.trim().split('\n').slice(-5)].join('\n')
}

/**
 * `npm run build:confluent`: builds the native module of `@confluentinc/kafka-javascript` for the pinned Node, once for
 * each version of both, and links it into node_modules.
 *
 * With `--cached`: links what was built before, and builds nothing.
 *
 * @returns The exit code. Tests that need the module are skipped without it.
 */
async function confluent(args: readonly string[]): Promise<number> {
  if (isBuilt()) return 0
  const cached = await placeInCache()
  try {
    if (!(existsSync(cached) || args.includes('--cached'))) {
      await withLock(MODULE, async () => {
        if (!existsSync(cached)) await build(cached)
      })
    }
    if (existsSync(cached)) await link(cached)
  } catch (error) {
    say(`${NAME} could not be built. It needs python3, make and g++.\n${explain(error)}`)
  }
  if (isBuilt()) return 0
  say(`left out: the tests of ${NAME}, which is not built (npm run build:confluent)`)
  return args.includes('--cached') ? 0 : 1
}

process.exitCode = await confluent(process.argv.slice(2))
