import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { endsWithin } from '../handlers/shared.ts'
import type { ChildTask } from './child.ts'

const CHILD = fileURLToPath(new URL('./child.ts', import.meta.url))
const NODE_COMPILE_CACHE = join(tmpdir(), 'onceward-e2e-compiled')

const ARGUMENTS = [
  '--conditions=@onceward/source',
  '--disable-warning=ExperimentalWarning',
  // Small, so that a handler fills it soon.
  '--max-old-space-size=96',
  CHILD,
]

/** Longer than a process plays and closes. */
const LONGEST_MS = 80_000

/** How a process ended. */
export interface ChildEnd {
  readonly how: NodeJS.Signals | number | null
  readonly isInTime: boolean
  /** The end of what it wrote to its standard error. */
  readonly stderr: string
}

/** The processes of all cases. One is always started ahead, because a case needs several, one after the other. */
export class Children {
  /** Of the journals. */
  readonly directory: string = mkdtempSync(join(tmpdir(), 'onceward-kills-'))
  #next: Child | undefined

  async play(task: Omit<ChildTask, 'journal'>, journal: string): Promise<ChildEnd> {
    const child = this.#next ?? new Child()
    this.#next = new Child()
    return child.play({ ...task, journal })
  }

  async close(): Promise<void> {
    await this.#next?.dismiss()
    rmSync(this.directory, { recursive: true, force: true })
  }
}

class Child {
  readonly #process: ChildProcess
  readonly #closed: Promise<unknown>
  #stderr = ''

  constructor() {
    const { NODE_OPTIONS: _, ...env } = process.env
    this.#process = spawn(process.execPath, ARGUMENTS, {
      stdio: ['pipe', 'ignore', 'pipe'],
      env: { ...env, NODE_COMPILE_CACHE },
    })
    this.#closed = once(this.#process, 'close')
    this.#process.stderr?.on('data', (chunk: Buffer) => {
      this.#stderr = `${this.#stderr}${chunk.toString()}`.slice(-2_000)
    })
    // A process that ends before it has read everything says so by its exit code.
    this.#process.stdin?.on('error', () => undefined)
  }

  async play(task: ChildTask): Promise<ChildEnd> {
    this.#process.stdin?.end(JSON.stringify(task))
    const isInTime = await endsWithin(this.#closed, LONGEST_MS)
    if (!isInTime) this.#process.kill('SIGKILL')
    await this.#closed
    const { exitCode, signalCode } = this.#process
    return { how: signalCode ?? exitCode, isInTime, stderr: this.#stderr }
  }

  /** The process is not needed. */
  async dismiss(): Promise<void> {
    this.#process.stdin?.end()
    await this.#closed
  }
}
