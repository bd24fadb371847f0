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

/** Whether the logger writes lines of that level. Loggers that cannot tell, unlike pino, count as writing them. */
export function isLevelEnabled(logger: Logger, level: keyof Logger): boolean {
  if (logger[level] === ignore) return false
  const ask: unknown = Reflect.get(logger, 'isLevelEnabled')
  return typeof ask !== 'function' || Reflect.apply(ask, logger, [level]) !== false
}

/** Wraps a logger so that its errors are ignored: no delivery depends on a log line. */
export function safeLogger(logger: Logger): Logger {
  if (logger === defaultLogger) return logger
  const write =
    (level: keyof Logger) =>
    (fields: object, message: string): void => {
      try {
        const answer: unknown = logger[level](fields, message)
        if (answer instanceof Promise) answer.catch(ignore)
      } catch {
        // The error cannot be reported anywhere else.
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

/** Used if no logger is given, so that a failing handler is still reported. */
export const defaultLogger: Logger = { debug: ignore, info: ignore, warn, error: warn }
