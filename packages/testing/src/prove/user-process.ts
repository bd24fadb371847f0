import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { ProofError } from './errors.ts'
import {
  type FromProcess,
  type ProcessSettings,
  SETTINGS_VARIABLE,
  type ToProcess,
} from './protocol.ts'

const KEPT_LINES = 30
const KEPT_CHARACTERS = 20_000

// The extension of this very file: `.ts` in the repository, `.js` in the package.
const EXTENSION = import.meta.url.endsWith('.ts') ? 'ts' : 'js'
const PROGRAM = fileURLToPath(new URL(`./worker/main.${EXTENSION}`, import.meta.url))

/** Node 22 strips types only when it is told to, until 22.18. */
const STRIPS_TYPES = Reflect.get(process.features, 'typescript') !== false

/** Warnings of Node and of the AWS SDK are no news of the consumer. */
const FLAGS = [
  ...(EXTENSION === 'ts' ? ['--conditions=@onceward/source'] : []),
  ...(STRIPS_TYPES || !process.allowedNodeEnvironmentFlags.has('--experimental-strip-types')
    ? []
    : ['--experimental-strip-types']),
  '--no-warnings',
]

/** A process that has loaded the user's file. */
export class UserProcess {
  readonly #child: ChildProcess
  readonly #settings: ProcessSettings
  /** Resolves with how the process ended. */
  readonly ended: Promise<NodeJS.Signals | number | null>
  #output = ''
  #isEnded = false

  constructor(
    settings: ProcessSettings,
    variables: Readonly<Record<string, string>>,
    hear: (message: FromProcess) => void,
  ) {
    this.#settings = settings
    const env = {
      // Killed workers are replaced: their modules are compiled once.
      NODE_COMPILE_CACHE: join(settings.folder, 'compiled'),
      ...process.env,
      ...variables,
      [SETTINGS_VARIABLE]: JSON.stringify(settings),
    }
    this.#child = spawn(process.execPath, [...FLAGS, PROGRAM], {
      stdio: ['ignore', 'pipe', 'pipe', 'ipc'],
      env,
    })
    for (const stream of [this.#child.stdout, this.#child.stderr]) {
      stream?.on('data', (chunk: Buffer) => {
        this.#output = (this.#output + chunk.toString()).slice(-KEPT_CHARACTERS)
      })
    }
    this.#child.on('message', hear)
    this.ended = once(this.#child, 'close').then(() => {
      this.#isEnded = true
      return this.#child.signalCode ?? this.#child.exitCode
    })
  }

  get pid(): number {
    return this.#child.pid ?? 0
  }

  get isAlive(): boolean {
    return !this.#isEnded && this.#child.exitCode === null && this.#child.signalCode === null
  }

  /** The last lines that the process has written, indented. */
  get lastLines(): string {
    const lines = this.#output.trimEnd().split('\n').slice(-KEPT_LINES)
    return lines.map((line) => `    ${line}`).join('\n')
  }

  say(message: ToProcess): void {
    // The process may be dead already.
    if (this.isAlive) this.#child.send(message, () => undefined)
  }

  signal(signal: NodeJS.Signals): void {
    if (this.isAlive) this.#child.kill(signal)
  }

  async kill(): Promise<void> {
    this.signal('SIGKILL')
    await this.ended
  }

  /** An error of the user's file, with what its process has written. */
  error(what: string, text: string): ProofError {
    const written =
      this.#output.trim() === '' ? '' : `\n  The process had written:\n${this.lastLines}`
    return new ProofError(
      `${this.#settings.file}: ${what}\n    ${text.replaceAll('\n', '\n    ')}${written}`,
    )
  }
}
