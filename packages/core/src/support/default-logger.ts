import { type Logger, type NoticingLogger, withNotices } from '../model/logger.ts'
import type { Runtime } from '../model/runtime.ts'
import { Console, hostname } from '../node.ts'
import { jsonText, type LogLine, painted, peopleText, plain } from './log-text.ts'

/** Where the lines go, and how they look there. */
export interface LogTarget {
  /** Lines for a person, or JSON for a program. */
  readonly form: 'people' | 'json'
  readonly hasColours: boolean
  readonly write: (text: string) => void
  readonly now: () => number
}

type Environment = Readonly<Record<string, string | undefined>>

/** A terminal is read by a person, unless the process says that it is in production. */
export function formOf(
  isTerminal: boolean,
  env: Environment,
): Pick<LogTarget, 'form' | 'hasColours'> {
  const form = isTerminal && env['NODE_ENV'] !== 'production' ? 'people' : 'json'
  // https://no-color.org: set and not empty.
  const isPlain = (env['NO_COLOR'] ?? '') !== '' || env['TERM'] === 'dumb'
  return { form, hasColours: form === 'people' && !isPlain }
}

/** Also tells, as pino does, that it writes no `debug`: nothing is computed for those lines. */
interface LevelledLogger extends NoticingLogger {
  isLevelEnabled(level: keyof Logger): boolean
}

/** @param target - Asked at the first line. */
export function createLogger(target: () => LogTarget): LevelledLogger {
  let found: LogTarget | undefined
  const write = (level: LogLine['level'], given: object | string, message?: string): void => {
    found ??= target()
    const fields = (typeof given === 'object' ? given : {}) as LogLine['fields']
    const line = { level, fields, message: String(message ?? given), atMs: found.now() }
    const paint = found.hasColours ? painted : plain
    const base = { pid: process.pid, hostname: hostname() }
    found.write(found.form === 'json' ? jsonText(line, base) : peopleText(line, paint))
  }
  const logger: Logger = {
    debug: () => undefined,
    info: (fields, message) => write('info', fields, message),
    warn: (fields, message) => write('warn', fields, message),
    error: (fields, message) => write('error', fields, message),
  }
  return { ...withNotices(logger), isLevelEnabled: (level) => level !== 'debug' }
}

/**
 * The logger of guards that are given none: lines for a person on a terminal, else one line of JSON each, in the format of
 * pino, both on standard error: standard output belongs to the program. pino itself is not looked for, because core depends on no library: give `logger: pino()`.
 */
export const consoleLogger = ({ now }: Pick<Runtime, 'now'>): LevelledLogger =>
  createLogger(() => {
    // A reader that has gone must not end the process: a Console ignores errors of its stream.
    const lines = new Console(process.stderr)
    return {
      ...formOf(process.stderr.isTTY === true, process.env),
      write: (text) => lines.log('%s', text),
      now,
    }
  })
