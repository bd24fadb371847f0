import { type ChildProcess, fork } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { until } from '@onceward/testing'
import type { KafkaSource } from '../../brokers/kafka/queue.ts'
import type { SqsSource } from '../../brokers/sqs/queue.ts'

/** A route sends to Kafka, what consumes from there sends to SQS. Each part is a process, and relays are others. */
export const PARTS = ['route', 'capture', 'mail', 'relay'] as const
export type Part = (typeof PARTS)[number]

export interface ServiceConfig {
  readonly part: Part
  readonly databaseUrl: string
  readonly kafka: KafkaSource
  readonly sqs: SqsSource
}

const FILE = join(import.meta.dirname, 'service-main.ts')
const EXEC_ARGV = ['--conditions=@onceward/source', '--no-warnings']
/** Between the end of a process and its successor, ms: as long as a supervisor's first pause. */
const RESTART_MS = 100

/** A place of a process: another one follows each that has ended. */
export class Member implements AsyncDisposable {
  readonly #config: ServiceConfig
  readonly #running: Promise<void>
  #child: ChildProcess | undefined
  #isOver = false
  #log = ''
  /** What the living process has said once it was ready. */
  #said: string | undefined

  constructor(config: ServiceConfig) {
    this.#config = config
    this.#running = this.#run()
  }

  get log(): string {
    return this.#log
  }

  get said(): string | undefined {
    return this.#said
  }

  async ready(): Promise<void> {
    const what = () => `a ${this.#config.part}: ${this.#log.slice(-2_000)}`
    await until(() => this.#said !== undefined, { what: this.#config.part }).catch((cause) => {
      throw new Error(what(), { cause })
    })
  }

  kill(): void {
    this.#said = undefined
    this.#child?.kill('SIGKILL')
  }

  async #run(): Promise<void> {
    const { NODE_OPTIONS: _, ...env } = process.env
    while (!this.#isOver) {
      const child = fork(FILE, [JSON.stringify(this.#config)], {
        ...{ env, execArgv: EXEC_ARGV, stdio: ['ignore', 'ignore', 'pipe', 'ipc'] },
      })
      this.#child = child
      child.on('message', (said) => {
        this.#said = String(said)
      })
      child.stderr?.on('data', (chunk: Buffer) => {
        this.#log += chunk.toString()
      })
      await once(child, 'exit')
      this.#said = undefined
      if (!this.#isOver) await pause(RESTART_MS)
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#isOver = true
    this.kill()
    await this.#running
  }
}

/** Sends a request until it is answered, as docs/client-contract.md says. */
export async function pay(urlOf: () => string | undefined, order: string): Promise<void> {
  const headers = { 'content-type': 'application/json', 'idempotency-key': order }
  const body = JSON.stringify({ order })
  await until(
    async () => {
      const url = urlOf()
      if (url === undefined) return false
      const signal = AbortSignal.timeout(5_000)
      return (await fetch(url, { method: 'POST', headers, body, signal })).status === 201
    },
    { what: `an answer to ${order}`, everyMs: 50 },
  )
}
