import { fork } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import type { SqsConnection } from '@onceward/testing'
import type { PublishOrder } from './publish.ts'

interface Address {
  readonly host: string
  readonly port: number
}

export interface SideProcess<Connection> extends AsyncDisposable {
  readonly connection: Connection
}

/** Starts a proxy in a process of its own, so that it takes no time from the measured event loop. */
export function startProxyProcess(
  target: Address,
  latencyMs: number,
): Promise<SideProcess<Address>> {
  return start(['proxy', target.host, String(target.port), String(latencyMs)])
}

/** Starts fauxqs in a process of its own. */
export function startSqsProcess(): Promise<SideProcess<SqsConnection>> {
  return start(['sqs'])
}

async function start<Connection>(args: readonly string[]): Promise<SideProcess<Connection>> {
  const child = fork(join(import.meta.dirname, 'side-process-main.ts'), args)
  const [connection] = await once(child, 'message')
  return {
    connection,
    [Symbol.asyncDispose]: async () => {
      child.disconnect()
      await once(child, 'exit')
    },
  }
}

export interface Publisher {
  /** Resolves when the broker has confirmed them all. */
  publish(queue: string, events: number): Promise<void>
}

/** Starts a publisher for RabbitMQ queues in a process of its own. */
export async function startPublisherProcess(url: string): Promise<SideProcess<Publisher>> {
  const child = fork(join(import.meta.dirname, 'publisher-main.ts'), [url])
  const gone = new AbortController()
  child.once('exit', () => gone.abort(new Error('the publisher has ended')))
  const answer = (): Promise<unknown> => once(child, 'message', { signal: gone.signal })
  await answer()
  return {
    connection: {
      publish: async (queue, events) => {
        child.send({ queue, events } satisfies PublishOrder)
        await answer()
      },
    },
    [Symbol.asyncDispose]: async () => {
      child.disconnect()
      await once(child, 'exit')
    },
  }
}
