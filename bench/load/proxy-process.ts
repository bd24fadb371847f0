import { fork } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import type { SqsConnection } from '@onceward/testing'
import type { PublishOrder } from './publish.ts'

interface Address {
  readonly host: string
  readonly port: number
}

export interface Aside<Connection> extends AsyncDisposable {
  readonly connection: Connection
}

/** A proxy in a process of its own, so that it takes no time of the event loop that is measured. */
export function proxyAside(target: Address, latencyMs: number): Promise<Aside<Address>> {
  return aside(['proxy', target.host, String(target.port), String(latencyMs)])
}

/** fauxqs in a process of its own. */
export function sqsAside(): Promise<Aside<SqsConnection>> {
  return aside(['sqs'])
}

async function aside<Connection>(args: readonly string[]): Promise<Aside<Connection>> {
  const child = fork(join(import.meta.dirname, 'aside-main.ts'), args)
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

/** What fills queues of RabbitMQ, in a process of its own. */
export async function publisherAside(url: string): Promise<Aside<Publisher>> {
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
