import { mkdtemp, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { until } from '../../until.ts'
import type { OwnedProcess } from './process.ts'
import { type Server, ServerStartError, type ServiceName } from './server.ts'

/** What {@link nativeServer} has to know about one kind of server. */
export interface NativeSpec<Connection> {
  readonly name: ServiceName
  readonly connection: Connection
  /** Everything the server writes; removed by `stop()`. */
  readonly directory: string
  readonly log: string
  /** Ends the server without loss of data; SIGKILL follows when it takes too long. */
  readonly stopSignal: NodeJS.Signals
  readonly startDeadlineMs?: number | undefined
  launch(): Promise<OwnedProcess>
  /** Rejects until the protocol answers. */
  probe(): Promise<unknown>
}

const STOP_DEADLINE_MS = 15_000
const LOG_LINES = 40
const MOST_RESTARTS = 50
const RESTART_PAUSE_MS = 200

/** A new directory for one server. */
export async function serverDirectory(name: string, parent: string = tmpdir()): Promise<string> {
  return mkdtemp(join(parent, `onceward-${name}-`))
}

/** Starts the process, waits until the protocol answers, and hands it out as a {@link Server}. */
export async function nativeServer<C>(spec: NativeSpec<C>): Promise<Server<C>> {
  let current = await started(spec)
  const stop = async (): Promise<void> => {
    await ended(current, spec.stopSignal)
    await rm(spec.directory, { recursive: true, force: true })
  }
  return {
    name: spec.name,
    connection: spec.connection,
    how: 'native',
    canKill: true,
    get pid() {
      return current.running ? current.pid : undefined
    },
    kill: (signal = 'SIGKILL') => current.kill(signal),
    restart: async () => {
      await ended(current, spec.stopSignal)
      current = await startedAgain(spec)
    },
    stop,
    [Symbol.asyncDispose]: stop,
  }
}

/**
 * Runs `start` again with another port when somebody took the chosen one between the look and the
 * start.
 */
export async function retryTakenPort<T>(start: () => Promise<T>): Promise<T> {
  for (let attempt = 1; ; attempt++) {
    try {
      return await start()
    } catch (error) {
      const taken =
        error instanceof ServerStartError &&
        /already in use|eaddrinuse|port \d+ in use/i.test(error.message)
      if (!taken || attempt === 3) throw error
    }
  }
}

async function started<C>(spec: NativeSpec<C>): Promise<OwnedProcess> {
  const running = await spec.launch()
  let over = false
  void running.ended.then(() => {
    over = true
  })
  try {
    await until(async () => over || (await spec.probe().then(() => true)), {
      what: `${spec.name} to answer`,
      deadlineMs: spec.startDeadlineMs ?? 150_000,
      everyMs: 25,
    })
  } catch (error) {
    await running.kill('SIGKILL')
    throw await startError(spec, (error as Error).message)
  }
  if (over) throw await startError(spec, 'the process ended')
  return running
}

/** Backends of a PostgreSQL that was killed outlive it by moments, and the next one refuses to start beside them. */
async function startedAgain<C>(spec: NativeSpec<C>): Promise<OwnedProcess> {
  for (let attempt = 1; ; attempt++) {
    try {
      return await started(spec)
    } catch (error) {
      const isBeside =
        error instanceof ServerStartError &&
        error.message.includes('pre-existing shared memory block')
      if (!isBeside || attempt === MOST_RESTARTS) throw error
      await pause(RESTART_PAUSE_MS)
    }
  }
}

async function startError<C>(spec: NativeSpec<C>, why: string): Promise<ServerStartError> {
  const log = await readFile(spec.log, 'utf8').catch(() => '')
  const lines = log.trimEnd().split('\n').slice(-LOG_LINES).join('\n')
  return new ServerStartError(`${spec.name} did not start: ${why}\n--- ${spec.log}\n${lines}`)
}

async function ended(running: OwnedProcess, signal: NodeJS.Signals): Promise<void> {
  if (!running.running) return
  // A frozen process takes no signal but SIGKILL.
  await running.kill('SIGCONT')
  const timer = setTimeout(() => void running.kill('SIGKILL'), STOP_DEADLINE_MS)
  try {
    await running.kill(signal)
  } finally {
    clearTimeout(timer)
  }
}
