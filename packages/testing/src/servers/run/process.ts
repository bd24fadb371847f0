import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { closeSync, openSync } from 'node:fs'
import { until } from '../../until.ts'
import type { UnixUser } from '../postgres/users.ts'
import { descendants, isRunning } from './process-tree.ts'

/** How to run a server process. */
export interface LaunchOptions {
  readonly command: string
  readonly args: readonly string[]
  readonly env?: NodeJS.ProcessEnv | undefined
  readonly cwd?: string | undefined
  readonly user?: UnixUser | undefined
  /** File that receives stdout and stderr. */
  readonly log: string
  /** Removed by the watchdog when the parent died. */
  readonly directory: string
  /** First signal of the watchdog; SIGKILL follows. Default SIGKILL. */
  readonly orphanSignal?: 'QUIT' | 'KILL' | undefined
}

/** A server process that does not outlive this one, however this one ends. */
export interface OwnedProcess {
  readonly pid: number
  readonly running: boolean
  /** Resolves when the process has ended. */
  readonly ended: Promise<void>
  /** Signals the process group; resolves when all of it has ended (at once for SIGSTOP/SIGCONT). */
  kill(signal: NodeJS.Signals): Promise<void>
}

// The server starts only after its watchdog stands: a parent that dies in between closes the pipe,
// `read` fails and nothing was started.
const GATE = 'read -r _ && exec "$0" "$@" </dev/null'

// stdin is a pipe from the parent: the end of it means that the parent is gone.
const WATCHDOG = `echo ready
read -r word; [ "$word" = free ] && exit 0
kill -s "$2" -- "-$1" 2>/dev/null
i=0; while [ $i -lt 30 ] && kill -0 -- "-$1" 2>/dev/null; do sleep 0.1; i=$((i + 1)); done
kill -s KILL -- "-$1" 2>/dev/null
rm -rf -- "$3"`

/** Starts a process in its own group, with a watchdog that ends it when this process dies. */
export async function launch(options: LaunchOptions): Promise<OwnedProcess> {
  const child = spawnGated(options)
  const { pid } = child
  if (pid === undefined) throw await spawnFailure(child)
  const ended = once(child, 'exit').then(() => undefined)
  const watchdog = await watch(pid, options)
  void ended.then(() => watchdog.stdin?.end('free\n'))
  child.stdin?.on('error', () => undefined).end('go\n')
  child.unref()
  const running = (): boolean => child.exitCode === null && child.signalCode === null
  return {
    pid,
    ended,
    get running() {
      return running()
    },
    kill: async (signal) => {
      if (!running()) return
      if (signal === 'SIGSTOP' || signal === 'SIGCONT') return void signalGroup(pid, signal)
      child.ref()
      // Postgres backends have groups of their own and notice the death of their parent only when
      // idle; a restart on the same data must wait for them.
      const family = signal === 'SIGKILL' ? descendants(pid) : []
      signalGroup(pid, signal)
      for (const member of family) signalOne(member, signal)
      await ended
      for (const member of family) await gone(member)
    },
  }
}

function spawnGated(options: LaunchOptions): ChildProcess {
  const log = openSync(options.log, 'a')
  try {
    return spawn('/bin/sh', ['-c', GATE, options.command, ...options.args], {
      detached: true,
      stdio: ['pipe', log, log],
      env: options.env ?? process.env,
      ...(options.cwd === undefined ? {} : { cwd: options.cwd }),
      ...options.user,
    })
  } finally {
    closeSync(log)
  }
}

async function spawnFailure(child: ChildProcess): Promise<Error> {
  const [error] = (await once(child, 'error')) as [Error]
  return error
}

async function watch(pid: number, options: LaunchOptions): Promise<ChildProcess> {
  const args = [String(pid), options.orphanSignal ?? 'KILL', options.directory]
  const watchdog = spawn('/bin/sh', ['-c', WATCHDOG, 'onceward-watchdog', ...args], {
    detached: true,
    stdio: ['pipe', 'pipe', 'ignore'],
    cwd: '/',
  })
  await once(watchdog.stdout as NodeJS.EventEmitter, 'data')
  watchdog.stdout.destroy()
  watchdog.stdin.on('error', () => undefined)
  // A test that forgets to stop a server must still be able to end.
  watchdog.unref()
  ;(watchdog.stdin as unknown as { unref?(): void }).unref?.()
  return watchdog
}

function signalGroup(pid: number, signal: NodeJS.Signals): void {
  signalOne(-pid, signal)
}

function signalOne(pid: number, signal: NodeJS.Signals): void {
  try {
    process.kill(pid, signal)
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ESRCH') throw error
  }
}

async function gone(pid: number): Promise<void> {
  await until(() => !isRunning(pid), { what: `the end of process ${pid}`, everyMs: 5 })
}
