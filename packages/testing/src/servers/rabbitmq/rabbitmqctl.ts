import { execFile } from 'node:child_process'
import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { promisify } from 'node:util'
import type { Server } from '../run/server.ts'
import { RABBITMQ_BIN } from './rabbitmq.ts'

/** `rabbitmqctl` with these arguments; resolves with what it printed. */
export type Rabbitmqctl = (...args: readonly string[]) => Promise<string>

/** For a node of our own on this machine; undefined where it cannot be had. */
export function rabbitmqctl({ pid }: Server<unknown>): Rabbitmqctl | undefined {
  const command = join(RABBITMQ_BIN, 'rabbitmqctl')
  if (pid === undefined || !existsSync(`/proc/${pid}/environ`) || !existsSync(command)) {
    return undefined
  }
  // Its name, its cookie and its name server are in the environment that it was started with.
  const environment = readFileSync(`/proc/${pid}/environ`, 'utf8').split('\0').filter(Boolean)
  const env = Object.fromEntries(
    environment.map((entry) => {
      const at = entry.indexOf('=')
      return [entry.slice(0, at), entry.slice(at + 1)]
    }),
  )
  return async (...args) => (await promisify(execFile)(command, args, { env })).stdout
}

/**
 * Resolves when a node that is killed from here on knows its quorum queues again. RabbitMQ 3.10 writes the name of a
 * new one up to three seconds late; killed before, the node has its log with all that was confirmed, but starts no
 * leader, and every use of the queue times out for ever.
 */
export async function quorumQueuesOnDisk(server: Server<unknown>): Promise<void> {
  await rabbitmqctl(server)?.('eval', 'ok = dets:sync(ra_directory_reverse).')
}
