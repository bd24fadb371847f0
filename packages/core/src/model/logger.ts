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

/** Used when no logger is given: a handler that fails must not be silent. */
export const defaultLogger: Logger = { debug: ignore, info: ignore, warn, error: warn }
