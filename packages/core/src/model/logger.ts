import { inspect } from 'node:util'
import { describeError, isError } from './errors.ts'

/** A pino instance or `console` fits. */
export interface Logger {
  debug(fields: object, message: string): void
  info(fields: object, message: string): void
  warn(fields: object, message: string): void
  error(fields: object, message: string): void
}

const ignore = (): void => {}

const warn = (fields: object, message: string): void => {
  const detail = inspect(fields, { depth: 8, breakLength: Number.POSITIVE_INFINITY })
  process.emitWarning(`onceward: ${message}`, { type: 'OncewardWarning', detail })
}

/**
 * Whether the logger writes lines of that level. Loggers that do not say, unlike pino, count as writing them. Never
 * throws.
 */
export function isLevelEnabled(logger: Logger, level: keyof Logger): boolean {
  try {
    if (logger[level] === ignore) return false
    const ask: unknown = Reflect.get(logger, 'isLevelEnabled')
    return typeof ask !== 'function' || Reflect.apply(ask, logger, [level]) !== false
  } catch {
    return true
  }
}

type Write = (level: keyof Logger, fields: object, message: string) => unknown

/** A logger whose errors are ignored: no delivery depends on a log line. */
function loggerOf(write: Write): Logger {
  return {
    debug: (fields, message) => safely(write, 'debug', fields, message),
    info: (fields, message) => safely(write, 'info', fields, message),
    warn: (fields, message) => safely(write, 'warn', fields, message),
    error: (fields, message) => safely(write, 'error', fields, message),
  }
}

function safely(write: Write, ...line: Parameters<Write>): void {
  try {
    const answer = write(...line)
    // The logger is asynchronous. Its rejection must not end the process.
    if (typeof answer === 'object' && answer !== null) Promise.resolve(answer).catch(ignore)
  } catch {
    // The error cannot be reported anywhere else.
  }
}

/** The logger of onceward's lines: errors of the user's logger are ignored, and `err` is always described. */
export function safeLogger(logger: Logger): Logger {
  if (logger === defaultLogger) return ownDefaultLogger
  const asked = { isLevelEnabled: (level: keyof Logger) => isLevelEnabled(logger, level) }
  const write: Write = (level, fields, message) => logger[level](withDescribed(fields), message)
  return { ...loggerOf(write), ...asked }
}

/** Adapters and stores log errors of client libraries, which keep requests and parameters in further properties. */
function withDescribed(fields: object): object {
  const { err } = fields as { readonly err?: unknown }
  return isError(err) ? { ...fields, err: describeError(err) } : fields
}

/**
 * A logger that adds the fields to each of its lines: the logger's own child if it makes one, as pino does. The child is
 * made for the first line. Errors of both are ignored.
 */
export function boundLogger(logger: Logger, bound: object): Logger {
  let write: Write | undefined
  return loggerOf((...line) => {
    write ??= boundWrite(logger, bound)
    return write(...line)
  })
}

function boundWrite(logger: Logger, bound: object): Write {
  const make: unknown = Reflect.get(logger, 'child')
  if (typeof make === 'function') {
    const child = Reflect.apply(make, logger, [bound]) as Logger
    return (level, ...line) => child[level](...line)
  }
  return (level, fields, message) =>
    // Handlers also write `logger.info('text')`, as `console` and pino allow.
    typeof fields === 'object' && fields !== null
      ? logger[level]({ ...bound, ...fields }, message)
      : logger[level]({ ...bound }, message === undefined ? String(fields) : message)
}

/** Used if no logger is given, so that a failing handler is still reported. */
export const defaultLogger: Logger = { debug: ignore, info: ignore, warn, error: warn }

const warnDescribed = (fields: object, message: string): void =>
  warn(withDescribed(fields), message)
const ownDefaultLogger: Logger = { ...defaultLogger, warn: warnDescribed, error: warnDescribed }
