import { dockerAnswers } from './docker.ts'
import { isInstalled, missing } from './peers.ts'
import {
  type Server,
  ServerMissingError,
  ServerNotOursError,
  type ServerOptions,
  type ServiceName,
} from './server.ts'

/** The three ways to a server, tried in this order. */
export interface Ways<S> {
  readonly variable: string
  fromEnvironment(value: string): Promise<S>
  docker(): Promise<S>
  native(): Promise<S>
}

/** Environment variable, then Docker if testcontainers is installed, then a native process. */
export async function resolveServer<S>(options: ServerOptions, ways: Ways<S>): Promise<S> {
  if (options.native) return ways.native()
  const value = process.env[ways.variable]
  if (value) return ways.fromEnvironment(value)
  if (!(await dockerAnswers())) return ways.native()
  return isInstalled('testcontainers') ? ways.docker() : nativeOrAdvice(ways)
}

/** A native server. Where it is missing, Docker could run it. */
export async function nativeOrAdvice<S>({ native }: Pick<Ways<S>, 'native'>): Promise<S> {
  try {
    return await native()
  } catch (error) {
    if (!(error instanceof ServerMissingError)) throw error
    throw new ServerMissingError(`${error.message}\n${missing('testcontainers')}`, {
      cause: error,
    })
  }
}

/** A server that the user runs: it is used, and left as it is. */
export function userServer<C>(name: ServiceName, variable: string, connection: C): Server<C> {
  const refuse = async (): Promise<never> => {
    throw new ServerNotOursError(
      `${name} comes from ${variable} and is yours: it is neither killed nor restarted. ` +
        `Unset ${variable} to let the tests run their own.`,
    )
  }
  const nothing = async (): Promise<void> => undefined
  return {
    name,
    connection,
    how: 'environment',
    canKill: false,
    kill: refuse,
    restart: refuse,
    stop: nothing,
    [Symbol.asyncDispose]: nothing,
  }
}
