import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { until } from '@onceward/testing'
import type { FromWorker } from '../support/workers/protocol.ts'
import type { ServerConfig } from './protocol.ts'

const SERVER = fileURLToPath(new URL('server.ts', import.meta.url))
/** Tests start hundreds of servers, which share the compile cache. */
const NODE_COMPILE_CACHE = join(tmpdir(), 'onceward-e2e-compiled')

/** A process that serves the guarded route. */
export class ServerProcess implements AsyncDisposable {
  readonly #child: ChildProcess
  readonly #ended: Promise<unknown>
  readonly #reached: string[] = []
  #log = ''

  constructor(config: ServerConfig) {
    const { NODE_OPTIONS: _, ...env } = process.env
    this.#child = spawn(
      process.execPath,
      ['--conditions=@onceward/source', SERVER, JSON.stringify(config)],
      { stdio: ['ignore', 'ignore', 'pipe', 'ipc'], env: { ...env, NODE_COMPILE_CACHE } },
    )
    this.#child.stderr?.on('data', (chunk: Buffer) => {
      this.#log += chunk.toString()
    })
    this.#child.on('message', (message: FromWorker) => {
      if (message.kind === 'reached') this.#reached.push(message.what)
      if (message.kind === 'log') this.#log += `${message.level} ${message.text}\n`
    })
    this.#ended = once(this.#child, 'exit')
  }

  get log(): string {
    return this.#log
  }

  /** Where it listens. */
  async url(): Promise<string> {
    return this.#heard(0)
  }

  /** Resolves when the process waits at its crash point. */
  async atPoint(): Promise<string> {
    return this.#heard(1)
  }

  async #heard(index: number): Promise<string> {
    const isOver = (): boolean => this.#child.exitCode !== null || this.#child.signalCode !== null
    await until(() => this.#reached[index] !== undefined || isOver(), {
      what: 'a word of the server',
      deadlineMs: 60_000,
      everyMs: 5,
    })
    const what = this.#reached[index]
    if (what === undefined) throw new Error(`the server has ended\n${this.#log}`)
    return what
  }

  /** Bytes on its heap after a collection of garbage. */
  async memory(): Promise<number> {
    const asked = this.#reached.length
    this.#child.send({ kind: 'ask-usage' })
    return Number(await this.#heard(asked))
  }

  /** Lets a process at its crash point kill itself. */
  async die(): Promise<NodeJS.Signals | null> {
    this.#child.send({ kind: 'go' }, () => undefined)
    await this.#ended
    return this.#child.signalCode
  }

  async kill(): Promise<void> {
    this.#child.kill('SIGKILL')
    await this.#ended
  }

  async [Symbol.asyncDispose](): Promise<void> {
    if (this.#child.exitCode === null && this.#child.signalCode === null) await this.kill()
  }
}
