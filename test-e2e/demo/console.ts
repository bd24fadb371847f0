import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'

const PROGRAM = fileURLToPath(new URL('../../packages/onceward/src/index.ts', import.meta.url))

/** `onceward console` on the database of the guarded run, read-only, on a free port of loopback. */
export class DemoConsole implements AsyncDisposable {
  readonly url: string
  readonly #child: ChildProcess

  private constructor(child: ChildProcess, url: string) {
    this.#child = child
    this.url = url
  }

  static async start(databaseUrl: string): Promise<DemoConsole> {
    const args = ['--conditions=@onceward/source', PROGRAM, 'console', '--port', '0', '--json']
    const env = { ...process.env, DATABASE_URL: databaseUrl }
    const child = spawn(process.execPath, args, { env, stdio: ['ignore', 'pipe', 'inherit'] })
    const [line] = await Promise.race([
      once(createInterface({ input: child.stdout }), 'line'),
      once(child, 'exit').then(() => Promise.reject(new Error('the console ended at once'))),
    ])
    return new DemoConsole(child, JSON.parse(String(line)).url)
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const ended = once(this.#child, 'exit')
    const isRunning = this.#child.exitCode === null && this.#child.signalCode === null
    if (isRunning && this.#child.kill()) await ended
  }
}
