import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import type { Release } from './commands.ts'

/** A process of the consumer that runs, or one that did not start. */
export interface Pod {
  readonly isRunning: boolean
  /** What it wrote. */
  readonly log: string
  /** By SIGKILL. Does nothing if it has ended. */
  kill(): Promise<void>
}

/** Resolves when the pod consumes or has ended. */
export async function startPod(
  { root, node }: Pick<Release, 'root' | 'node'>,
  env: NodeJS.ProcessEnv,
): Promise<Pod> {
  const file = join(root, 'test-e2e/incidents/pod.ts')
  const child = spawn(process.execPath, [...node, file], { env, stdio: ['ignore', 'pipe', 'pipe'] })
  const exit = once(child, 'exit')
  let log = ''
  const ready = new Promise<void>((resolve) => {
    for (const stream of [child.stdout, child.stderr])
      stream.on('data', (chunk: Buffer) => {
        log += chunk.toString()
        if (log.includes('ready\n')) resolve()
      })
  })
  await Promise.race([ready, exit])
  return {
    get isRunning() {
      return child.exitCode === null && child.signalCode === null
    },
    get log() {
      return log
    },
    kill: async () => {
      child.kill('SIGKILL')
      await exit
    },
  }
}
