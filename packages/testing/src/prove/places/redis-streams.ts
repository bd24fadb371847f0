import { Redis } from 'ioredis'
import type { Place } from './place.ts'

/** A new stream. The consumer creates its group: a stream with two groups is refused by the adapter. */
export async function streamsPlace(url: string, name: string): Promise<Place<'redis-streams'>> {
  const client = new Redis(url, { maxRetriesPerRequest: 3 })
  // Each call reports it too.
  client.on('error', () => undefined)
  const where = { stream: name, group: name, deadLetterStream: `${name}.dead` }
  return {
    where,
    variables: { STREAM: name, GROUP: name, DEAD_LETTER_STREAM: where.deadLetterStream },
    send: async (messages) => {
      const adding = messages.map(({ body, headers }) =>
        client.xadd(name, '*', ...Object.entries(headers).flat(), 'payload', body),
      )
      await Promise.all(adding)
    },
    waiting: () => countEntries(client, name),
    dead: () => client.xlen(where.deadLetterStream),
    [Symbol.asyncDispose]: async () => {
      await client.del(name, where.deadLetterStream).catch(() => undefined)
      client.disconnect()
    },
  }
}

/**
 * Entries that are not done. An adapter deletes an entry with its ack; with `keepEntries` the group tells what it has not
 * acknowledged.
 */
async function countEntries(client: Redis, stream: string): Promise<number> {
  const length = await client.xlen(stream)
  if (length === 0) return 0
  const groups = (await client.xinfo('GROUPS', stream)) as readonly (readonly unknown[])[]
  const left = groups.flatMap((group) => {
    const field = (name: string): unknown => group[group.indexOf(name) + 1]
    const [lag, pending] = [field('lag'), field('pending')]
    // No lag is known once an entry was deleted.
    return lag === null || lag === undefined ? [] : [Number(lag) + Number(pending)]
  })
  return left.length === 0 ? length : Math.min(length, ...left)
}
