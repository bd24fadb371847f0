import { inspect } from 'node:util'

/** A pino instance or `console` fits. */
export interface Logger {
  debug(fields: object, message: string): void
  info(fields: object, message: string): void
  warn(fields: object, message: string): void
  error(fields: object, message: string): void
}

const ignore = (): void => {}

const warn = (fields: object, message: string): void => {
  const detail = inspect(fields, { depth: 4, breakLength: Number.POSITIVE_INFINITY })
  process.emitWarning(`onceward: ${message}`, { type: 'OncewardWarning', detail })
}

/** Whether a line of that level goes anywhere, as far as the logger tells; pino does. */
export function isLevelEnabled(logger: Logger, level: keyof Logger): boolean {
  if (logger[level] === ignore) return false
  const ask: unknown = Reflect.get(logger, 'isLevelEnabled')
  return typeof ask !== 'function' || Reflect.apply(ask, logger, [level]) !== false
}

/** The logger, but a line that cannot be written costs nothing: no delivery depends on a log. */
export function safeLogger(logger: Logger): Logger {
  if (logger === defaultLogger) return logger
  const write =
    (level: keyof Logger) =>
    (fields: object, message: string): void => {
      try {
        const answer: unknown = logger[level](fields, message)
        if (answer instanceof Promise) answer.catch(ignore)
      } catch {
        // There is no other place to say it.
      }
    }
  return {
    debug: write('debug'),
    info: write('info'),
    warn: write('warn'),
    error: write('error'),
    ...{ isLevelEnabled: (level: keyof Logger) => isLevelEnabled(logger, level) },
  }
}

/** Used when no logger is given: a handler that fails must not be silent. */
export const defaultLogger: Logger = { debug: ignore, info: ignore, warn, error: warn }
