import { describeError, isError } from './errors.ts'

/** A pino instance or `console` fits. */
export interface Logger {
  debug(fields: object, message: string): void
  info(fields: object, message: string): void
  warn(fields: object, message: string): void
  error(fields: object, message: string): void
}

const ignore = (): void => {}

const NOTICE: unique symbol = Symbol.for('onceward.notice')

/** A logger that also takes what a person at a terminal wants to see, and a log of a service need not have. */
export interface NoticingLogger extends Logger {
  readonly [NOTICE]: (fields: object, message: string) => void
}

export const withNotices = (logger: Logger): NoticingLogger => ({
  ...logger,
  [NOTICE]: (fields, message) => logger.info(fields, message),
})

/** Writes the line if the logger wants notices: the logger of a user does not. Never throws. */
export function notice(logger: Logger, fields: object, message: string): void {
  try {
    const write: unknown = Reflect.get(logger, NOTICE)
    if (typeof write === 'function') Reflect.apply(write, logger, [fields, message])
  } catch {
    // No delivery depends on a log line.
  }
}

/** Constant texts of lines that the default logger writes as sentences of their own. */
export const LINES = {
  started: 'the consumer has started',
  duplicates: 'duplicates were acknowledged without another run',
  draining: 'draining: a second signal ends the process now',
} as const

/**
 * Whether the logger writes lines of that level. Loggers that do not say, unlike pino, count as writing them. Never
 * throws.
 */
export function isLevelEnabled(logger: Logger, level: keyof Logger): boolean {
  try {
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
  const asked = { isLevelEnabled: (level: keyof Logger) => isLevelEnabled(logger, level) }
  const write: Write = (level, fields, message) => logger[level](withDescribed(fields), message)
  const notices = { [NOTICE]: (fields: object, message: string) => notice(logger, fields, message) }
  return { ...loggerOf(write), ...asked, ...notices }
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
