import type { Logger } from '@onceward/core'
import type { FromWorker, ToWorker } from './protocol.ts'

/** Sends a message to the test, if the test still runs. */
export function say(message: FromWorker): void {
  if (process.connected) process.send?.(message, () => undefined)
}

type Listeners = {
  readonly [Kind in Exclude<ToWorker['kind'], 'go'>]: (
    message: Extract<ToWorker, { readonly kind: Kind }>,
  ) => Promise<void>
}

/** Does what the test says. The process ends when the test has ended. */
export function listen(listeners: Listeners): void {
  process.on('message', (message: ToWorker) => {
    if (message.kind === 'go') return
    const listener = listeners[message.kind] as (message: ToWorker) => Promise<void>
    // A rejection ends the process with an exit code, which the test reports.
    void listener(message)
  })
  process.on('disconnect', () => process.exit())
}

/** Reports a point and waits until the test says `go`. */
export function reached(what: string): Promise<void> {
  return new Promise((resolve) => {
    const onMessage = (message: ToWorker): void => {
      if (message.kind !== 'go') return
      process.off('message', onMessage)
      resolve()
    }
    process.on('message', onMessage)
    say({ kind: 'reached', what })
  })
}

const log = (level: string) => (fields: object, text: string) =>
  say({ kind: 'log', level, text: `${text} ${JSON.stringify(fields)}` })

export const logger: Logger = {
  debug: () => undefined,
  info: log('info'),
  warn: log('warn'),
  error: log('error'),
}
