import { type ChildProcess, fork } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import { SETTINGS_VARIABLE, type ServerSettings } from './settings.ts'

/** The server process of one run. A killed one is replaced at once. */
export class Shop implements AsyncDisposable {
  kills = 0
  readonly #file: string
  readonly #settings: ServerSettings
  #process: ChildProcess | undefined

  constructor(file: string, settings: ServerSettings) {
    this.#file = file
    this.#settings = settings
  }

  get port(): number {
    return this.#settings.port
  }

  /** Resolves when it accepts requests. */
  async open(): Promise<void> {
    const child = fork(join(import.meta.dirname, this.#file), {
      env: { ...process.env, [SETTINGS_VARIABLE]: JSON.stringify(this.#settings) },
    })
    this.#process = child
    const listening = new Promise<void>((resolve) => {
      child.on('message', (message: { readonly kind: string }) => {
        if (message.kind === 'listening') resolve()
      })
    })
    const ended = once(child, 'exit').then(([code]) => {
      throw new Error(`the server ended before it was ready, with code ${code}`)
    })
    await Promise.race([listening, ended])
    ended.catch(() => undefined)
  }

  async kill(): Promise<void> {
    this.kills += 1
    await this[Symbol.asyncDispose]()
    await this.open()
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const child = this.#process
    if (child === undefined || child.exitCode !== null || child.signalCode !== null) return
    const gone = once(child, 'exit')
    child.kill('SIGKILL')
    await gone
  }
}
