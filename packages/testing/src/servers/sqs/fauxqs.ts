import { join } from 'node:path'
import { nativeServer, serverDirectory } from '../run/native.ts'
import { freePort } from '../run/ports.ts'
import { launch } from '../run/process.ts'
import { type Server, ServerNotOursError } from '../run/server.ts'
import { probeSqs, type SqsConnection, sqsConnection } from './sqs-connection.ts'

/** fauxqs in this very process: fast, and gone with it. */
export async function fauxqsInProcess(): Promise<Server<SqsConnection>> {
  const { buildApp } = await import('fauxqs')
  const app = buildApp({ logger: false })
  // Not startFauxqs(): that one listens on every interface.
  const endpoint = await app.listen({ port: await freePort(), host: '127.0.0.1' })
  const refuse = async (): Promise<never> => {
    throw new ServerNotOursError(
      'fauxqs lives in this process: use sqs({ process: true }) to have one that can be killed',
    )
  }
  const stop = async (): Promise<void> => {
    app.server.closeAllConnections()
    await app.close()
  }
  return {
    name: 'sqs',
    connection: sqsConnection(endpoint),
    how: 'native',
    canKill: false,
    kill: refuse,
    restart: refuse,
    stop,
    [Symbol.asyncDispose]: stop,
  }
}

// fauxqs keeps its state on disk only through startFauxqs(), which would listen on every interface. When a message is
// given back, version 2.4.1 sets its receive count to null, which its own table refuses, and the message is lost.
const fauxqsScript = (port: number, dataDir: string): string => `
  import { Server } from 'node:net'
  import { DatabaseSync } from 'node:sqlite'
  import { startFauxqs } from 'fauxqs'
  const { listen } = Server.prototype
  Server.prototype.listen = function (options, ...rest) {
    return listen.call(this, { ...options, host: '127.0.0.1' }, ...rest)
  }
  const { prepare } = DatabaseSync.prototype
  DatabaseSync.prototype.prepare = function (sql, ...rest) {
    const count = 'approximate_receive_count'
    return prepare.call(this, sql.replace(count + ' = ?', count + ' = coalesce(?, ' + count + ')'), ...rest)
  }
  await startFauxqs({ port: ${port}, logger: false, dataDir: ${JSON.stringify(dataDir)} })`

/** fauxqs as a process with its state on disk. */
export async function fauxqsProcess(): Promise<Server<SqsConnection>> {
  const port = await freePort()
  const directory = await serverDirectory('sqs')
  const log = join(directory, 'fauxqs.log')
  const endpoint = `http://127.0.0.1:${port}`
  const script = fauxqsScript(port, join(directory, 'data'))
  return nativeServer({
    name: 'sqs',
    connection: sqsConnection(endpoint),
    directory,
    log,
    stopSignal: 'SIGKILL',
    launch: () =>
      launch({
        command: process.execPath,
        args: ['--no-warnings', '--input-type=module', '--eval', script],
        // Where the script finds the package.
        cwd: import.meta.dirname,
        env: { PATH: process.env['PATH'] },
        log,
        directory,
      }),
    probe: () => probeSqs(endpoint),
  })
}
