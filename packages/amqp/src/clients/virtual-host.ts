import type { DeliverySource } from '@onceward/core'
import { type OpenChannel, onChannel } from './calls.ts'

/** AMQP cannot ask for the virtual host, but the server names it in refusals. It logs this one. */
const NOWHERE = 'onceward asks for the name of this virtual host'
const VIRTUAL_HOST = / in vhost '(.*?)'(?: refused for user '.*')?"?$/s

/** The virtual host of a connection. Undefined if the server words the refusal otherwise. Rejects without an answer. */
export async function virtualHostOf(open: OpenChannel): Promise<string | undefined> {
  const answer = await onChannel(open, (channel) => channel.checkQueue(NOWHERE))
  return answer.kind === 'done' ? undefined : VIRTUAL_HOST.exec(String(answer.error))?.[1]
}

/**
 * A message's own source, which learns the virtual host when it becomes known. Its own, as from the other brokers, because
 * who observes outcomes may know a delivery by its source.
 */
export function ownSource(source: DeliverySource): DeliverySource {
  const { broker, queue } = source
  return {
    ...{ broker, queue },
    get namespace() {
      return source.namespace
    },
  }
}
