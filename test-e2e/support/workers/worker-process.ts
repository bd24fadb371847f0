import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { until } from '@onceward/testing'
import type { ProcessUsage } from './process-usage.ts'
import type { FromWorker, Settled, ToWorker, WorkerConfig } from './protocol.ts'

/** Tests start hundreds of workers, which share the compile cache. */
const NODE_COMPILE_CACHE = join(tmpdir(), 'onceward-e2e-compiled')

/** The script of a worker of this checkout. */
export const WORKER: string = fileURLToPath(new URL('../../worker.ts', import.meta.url))

/**
 * kafkajs sets timers of negative length (brokers.md K26), about which Node warns, and nobody can change it. Every
 * other warning is shown, with its place.
 */
const WARNINGS = [
  '--disable-warning=TimeoutNegativeWarning',
  '--disable-warning=ExperimentalWarning',
  '--trace-warnings',
]

type Of<Kind extends FromWorker['kind']> = Extract<FromWorker, { readonly kind: Kind }>

/** A worker process, as the test controls it. */
export class WorkerProcess implements AsyncDisposable {
  readonly name: string
  /** Runs the code of this checkout, and not of another one. */
  readonly isOurs: boolean
  readonly #child: ChildProcess
  readonly #ended: Promise<unknown>
  readonly #messages: FromWorker[] = []
  #stderr = ''

  /** @param script - That of another checkout makes a worker of another release. */
  constructor(config: WorkerConfig, script: string = WORKER) {
    this.name = config.name
    this.isOurs = script === WORKER
    const { NODE_OPTIONS: _, ...env } = process.env
    this.#child = spawn(
      process.execPath,
      ['--conditions=@onceward/source', ...WARNINGS, script, JSON.stringify(config)],
      { stdio: ['ignore', 'ignore', 'pipe', 'ipc'], env: { ...env, NODE_COMPILE_CACHE } },
    )
    this.#child.stderr?.on('data', (chunk: Buffer) => {
      this.#stderr += chunk.toString()
    })
    this.#child.on('message', (message: FromWorker) => this.#messages.push(message))
    this.#ended = once(this.#child, 'exit')
  }

  get pid(): number {
    return this.#child.pid ?? 0
  }

  get isAlive(): boolean {
    return this.#child.exitCode === null && this.#child.signalCode === null
  }

  /** The settlements so far, in order. */
  get settled(): readonly Settled[] {
    return this.all('settled').map(({ settled }) => settled)
  }

  get log(): string {
    const lines = this.all('log').map(({ level, text }) => `${this.name} ${level} ${text}`)
    return [...lines, this.#stderr].join('\n')
  }

  /** Output on standard error: warnings of Node, and whatever a library prints. */
  get stderr(): string {
    return this.#stderr
  }

  all<Kind extends FromWorker['kind']>(kind: Kind): readonly Of<Kind>[] {
    return this.#messages.filter((message): message is Of<Kind> => message.kind === kind)
  }

  say(message: ToWorker): void {
    // The worker may be dead already.
    if (this.isAlive) this.#child.send(message, () => undefined)
  }

  /** The first message of a kind, past or future. Rejects if the worker ends before. */
  async heard<Kind extends FromWorker['kind']>(kind: Kind, count = 1): Promise<Of<Kind>> {
    const isOver = (): boolean => this.all(kind).length >= count
    await until(() => isOver() || !this.isAlive, {
      what: `${this.name} to say ${kind}`,
      deadlineMs: 150_000,
      everyMs: 5,
    })
    const message = this.all(kind)[count - 1]
    if (message === undefined) throw new Error(`${this.name} ended before ${kind}\n${this.log}`)
    return message
  }

  /** The current state, for the message of a failed test. */
  async describe(): Promise<string> {
    const { exitCode, signalCode } = this.#child
    if (!this.isAlive) return `${this.name} ended: ${signalCode ?? exitCode}`
    const patience = AbortSignal.timeout(2_000)
    const silence = once(patience, 'abort').then(() => 'silent')
    return `${this.name} lives: ${JSON.stringify(await Promise.race([this.health(), silence]))}`
  }

  health(): Promise<Of<'health'>> {
    const asked = this.all('health').length
    this.say({ kind: 'ask-health' })
    return this.heard('health', asked + 1)
  }

  /** How often the worker has received the message of this order. */
  async received(id: string): Promise<number> {
    const asked = this.all('received').length
    this.say({ kind: 'ask-received', id })
    return (await this.heard('received', asked + 1)).count
  }

  /** What the process holds while nothing is in flight. */
  async usage(): Promise<ProcessUsage> {
    const asked = this.all('usage').length
    this.say({ kind: 'ask-usage' })
    return (await this.heard('usage', asked + 1)).usage
  }

  /** Drains the consumption. The process stays. */
  async drain(): Promise<void> {
    this.say({ kind: 'drain' })
    await this.heard('drained')
  }

  /** Lets the worker finish what is in flight, and ends it; resolves with how it ended. */
  async stop(): Promise<NodeJS.Signals | number | null> {
    this.say({ kind: 'stop' })
    return this.ended()
  }

  async start(): Promise<void> {
    await this.heard('ready')
    this.say({ kind: 'start' })
    await this.heard('started')
  }

  /** Sends the signal; for SIGKILL it resolves when the process is gone. */
  async kill(signal: 'SIGKILL' | 'SIGSTOP' | 'SIGCONT' = 'SIGKILL'): Promise<void> {
    if (!this.isAlive) return
    this.#child.kill(signal)
    if (signal === 'SIGKILL') await this.#ended
  }

  /** Resolves with how the process has ended. */
  async ended(): Promise<NodeJS.Signals | number | null> {
    await this.#ended
    return this.#child.signalCode ?? this.#child.exitCode
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.kill('SIGKILL')
  }
}
