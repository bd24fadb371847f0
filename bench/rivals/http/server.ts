import { type ChildProcess, fork } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import type { Place } from './rival.ts'

export interface ServerSettings extends Place {
  readonly name: string
}

/** A contestant in a process of its own. */
export interface RivalServer extends AsyncDisposable {
  readonly child: ChildProcess
  readonly port: number
}

const conditions = ['--conditions=@onceward/source']

/** Resolves when it accepts requests. */
export async function startServer(settings: ServerSettings): Promise<RivalServer> {
  const child = fork(join(import.meta.dirname, 'server-main.ts'), [JSON.stringify(settings)], {
    execArgv: conditions,
    stdio: ['ignore', 'ignore', 'ignore', 'ipc'],
  })
  const ended = once(child, 'exit').then(() => {
    throw new Error(`the server of ${settings.name} ended before it was ready`)
  })
  const [{ port }] = (await Promise.race([once(child, 'message'), ended])) as [{ port: number }]
  ended.catch(() => undefined)
  return {
    child,
    port,
    [Symbol.asyncDispose]: async () => {
      if (child.exitCode !== null || child.signalCode !== null) return
      const gone = once(child, 'exit')
      child.kill('SIGKILL')
      await gone
    },
  }
}
