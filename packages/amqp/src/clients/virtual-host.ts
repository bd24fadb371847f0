import type { DeliverySource } from '@onceward/core'
import { type OpenChannel, onChannel } from './calls.ts'

/** AMQP cannot ask for the virtual host, but the server names it in refusals. It logs this one. */
const NOWHERE = 'onceward asks for the name of this virtual host'
const BEFORE = " in vhost '"
/** Behind the name, where the user has no permissions. */
const REFUSED = "' refused for user '"

/** The virtual host of a connection. Undefined if the server words the refusal otherwise. Rejects without an answer. */
export async function virtualHostOf(open: OpenChannel): Promise<string | undefined> {
  const answer = await onChannel(open, (channel) => channel.checkQueue(NOWHERE))
  return answer.kind === 'done' ? undefined : virtualHostIn(String(answer.error))
}

function virtualHostIn(text: string): string | undefined {
  const before = text.indexOf(BEFORE)
  if (before === -1) return undefined
  const rest = text.slice(before + BEFORE.length)
  const refusedAt = rest.indexOf(REFUSED)
  const end = refusedAt === -1 ? rest.lastIndexOf("'") : refusedAt
  const isWhole = refusedAt !== -1 || ["'", `'"`].includes(rest.slice(end))
  return isWhole ? rest.slice(0, end) : undefined
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
