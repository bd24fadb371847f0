import { spawn } from 'node:child_process'
import { delimiter, join } from 'node:path'
import { fileURLToPath } from 'node:url'

/** Absolute path of the repository. */
export const root = fileURLToPath(new URL('..', import.meta.url))
const bin = join(root, 'node_modules', '.bin')

/** The Node that the repository pins: the machine's own may be too old. */
export const pinnedNode = join(bin, 'node')

/** Makes Node read the packages' TypeScript sources instead of their `dist`. */
export const fromSource = '--conditions=@onceward/source'

/** Absolute path of a command that npm installed. */
export const tool = (name) => join(bin, name)

function environment() {
  return {
    ...process.env,
    ...(process.stdout.isTTY || process.env.FORCE_COLOR ? {} : { NO_COLOR: '1' }),
    PATH: `${bin}${delimiter}${process.env.PATH ?? ''}`,
    DO_NOT_TRACK: '1',
    TURBO_TELEMETRY_DISABLED: '1',
    TURBO_NO_UPDATE_NOTIFIER: '1',
    TURBO_PRINT_VERSION_DISABLED: '1',
  }
}

/**
 * Runs a command in the repository to its end.
 *
 * @param options.quiet - Collect the output instead of streaming it.
 * @param options.copied - Stream the output and collect it too.
 * @returns `code` (never undefined: a signal gives 1) and the collected `output`.
 */
export function run(command, args, options = {}) {
  return new Promise((resolve) => {
    const child = spawn(command, args, {
      cwd: options.cwd ?? root,
      env: { ...environment(), ...options.env },
      stdio: options.quiet || options.copied ? ['ignore', 'pipe', 'pipe'] : 'inherit',
    })
    // A terminal sends SIGINT to the child too: wait for its clean-up, and do not send a second one.
    const onSignal = (signal) => signal === 'SIGINT' || child.kill(signal)
    const signals = ['SIGINT', 'SIGTERM', 'SIGHUP']
    const parts = []
    const end = (code) => {
      for (const signal of signals) process.off(signal, onSignal)
      resolve({ code, output: Buffer.concat(parts).toString().trim() })
    }
    for (const signal of signals) process.on(signal, onSignal)
    for (const stream of ['stdout', 'stderr']) {
      child[stream]?.on('data', (part) => {
        parts.push(part)
        if (options.copied) process[stream].write(part)
      })
    }
    child.on('error', (error) => {
      parts.push(Buffer.from(`${command}: ${error.message}`))
      if (!options.quiet) console.error(`${command}: ${error.message}`)
      end(1)
    })
    child.on('close', (code) => end(code ?? 1))
  })
}
