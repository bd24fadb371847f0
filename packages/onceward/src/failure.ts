import { messageOf } from '@onceward/core/adapter'
import { toStoreError } from '@onceward/postgres/operator'
import { EXIT, type ExitCode } from './exit-codes.ts'

/** Ends a command with a sentence and an exit code, and without a stack. */
export class Failure extends Error {
  readonly exitCode: ExitCode

  constructor(message: string, exitCode: ExitCode = EXIT.failed, options?: { cause?: unknown }) {
    super(message, options)
    this.exitCode = exitCode
  }
}

export const usage = (message: string): Failure => new Failure(message, EXIT.usage)

const isError = (error: unknown): error is Error & { readonly code?: unknown } =>
  error instanceof Error

/** Any error as a {@link Failure}. Errors of PostgreSQL say what to do. */
export function toFailure(error: unknown, doing = 'running the command'): Failure {
  if (error instanceof Failure) return error
  const typed = !isError(error) || error.code === undefined ? error : toStoreError(error, doing)
  const message = messageOf(typed).replaceAll('`await migrate(pool)`', '`npx onceward migrate`')
  return new Failure(message, EXIT.failed, { cause: error })
}

/** As {@link toFailure}, for commands that continue: the message repeats no password that the command was given. */
export function toShownFailure(error: unknown): Failure {
  const { exitCode, message } = toFailure(error)
  const given = [...process.argv, process.env['DATABASE_URL'] ?? '']
  return new Failure(withoutSecrets(message, given), exitCode, { cause: error })
}

const AFTER_USER = /:\/\/[^/:@\s]*:(\S*)/g
const PARAMETER = /[?&]password=([^&\s]+)/
/** Variables that hold nothing but a secret. */
const SECRETS = ['KAFKA_PASSWORD', 'AMQP_PASSWORD', 'AWS_SECRET_ACCESS_KEY', 'AWS_SESSION_TOKEN']

/** Errors of clients and servers repeat what they were given. */
export function withoutSecrets(text: string, given: readonly string[]): string {
  const passwords = given.flatMap(passwordsIn)
  const secrets = SECRETS.flatMap((name) => process.env[name] ?? [])
  return [...passwords, ...secrets]
    .flatMap((password) => [password, unescaped(password)])
    .filter((secret) => secret.length > 1)
    .reduce((left, secret) => left.replaceAll(secret, '***'), text)
}

/** An @ may stand in a password, and behind the host. */
function passwordsIn(text: string): readonly string[] {
  const ofUsers = [...text.matchAll(AFTER_USER)].flatMap(([, rest = '']) => {
    const ends = [rest.lastIndexOf('@'), rest.indexOf('@')]
    return ends.filter((end) => end > 0).map((end) => rest.slice(0, end))
  })
  return [...ofUsers, ...(PARAMETER.exec(text)?.slice(1) ?? [])]
}

function unescaped(text: string): string {
  try {
    return decodeURIComponent(text)
  } catch {
    return text
  }
}
