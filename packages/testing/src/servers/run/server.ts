/** The services a test can ask for. */
export const SERVICES = [
  'postgres',
  'redis',
  'sqs',
  'kafka',
  'rabbitmq',
  'nats',
  'pgbouncer',
  'prometheus',
  'chromium',
] as const

/** One of {@link SERVICES}. */
export type ServiceName = (typeof SERVICES)[number]

/** Where a server came from. */
export type How = 'environment' | 'docker' | 'native'

/** A real server and the means to hurt it. */
export interface Server<Connection> extends AsyncDisposable {
  readonly name: ServiceName
  readonly connection: Connection
  readonly how: How
  /** False for a server that belongs to the user or lives in this very process. */
  readonly canKill: boolean
  /** Process id of a native server while it runs. */
  readonly pid?: number | undefined
  /** Sends the signal (default SIGKILL) and resolves when the process has ended. */
  kill(signal?: NodeJS.Signals): Promise<void>
  /** Starts it again with the same data on the same port; resolves when the protocol answers. */
  restart(): Promise<void>
  /** Ends it and removes its data; a server of the user is left alone. */
  stop(): Promise<void>
}

/** What every server function understands. */
export interface ServerOptions {
  /** Skips the environment variable and Docker: always an own native process. */
  readonly native?: boolean | undefined
}

/** `kill()` or `restart()` of a server that is not ours to end. */
export class ServerNotOursError extends Error {
  override readonly name = 'ServerNotOursError'
}

/** A server that is missing on this machine; the message says what to install and what to set. */
export class ServerMissingError extends Error {
  override readonly name = 'ServerMissingError'
}

/** A server that did not come up; the message ends with the last lines of its log. */
export class ServerStartError extends Error {
  override readonly name = 'ServerStartError'
}

/** The services that `ONCEWARD_SKIP` names, so that their tests are skipped and the run says so. */
export function skipped(service: ServiceName): boolean {
  const names = (process.env['ONCEWARD_SKIP'] ?? '').split(',').map((name) => name.trim())
  return names.includes(service)
}
