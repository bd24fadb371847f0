import { Redis, type RedisOptions } from 'ioredis'

export interface Watch {
  /** A command is about to be sent. */
  onCall?(command: string, script: string): Promise<void> | undefined
  /** The client has received an entry. */
  onEntry?(id: string, fields: ReadonlyMap<string, string>): void
}

/** A client whose commands are watched here, because the adapter has no hook for tests. */
export function watchedClient(url: string, watch: Watch): Redis {
  const redis = new Redis(url, { retryStrategy: () => 50 })
  redis.on('error', () => undefined)
  return watched(redis, watch)
}

function watched(redis: Redis, watch: Watch): Redis {
  const call = redis.callBuffer.bind(redis) as (...args: unknown[]) => Promise<unknown>
  const duplicate = redis.duplicate.bind(redis)
  return Object.assign(redis, {
    callBuffer: async (...args: unknown[]) => {
      await watch.onCall?.(String(args[0]), String(args[1]))
      const answer = await call(...args)
      for (const [id, fields] of entriesIn(answer)) watch.onEntry?.(id, fields)
      return answer
    },
    duplicate: (override?: RedisOptions) => watched(duplicate(override), watch),
  })
}

/** Whatever the command: an id, and a list of fields after it. */
function entriesIn(answer: unknown): readonly (readonly [string, ReadonlyMap<string, string>])[] {
  if (!Array.isArray(answer)) return []
  const [id, flat] = answer
  if (Buffer.isBuffer(id) && /^\d+-\d+$/.test(String(id)) && Array.isArray(flat)) {
    if (flat.length > 0 && flat.every((each) => Buffer.isBuffer(each))) {
      const pairs = Array.from({ length: flat.length / 2 }, (_, at) => {
        return [String(flat[2 * at]), String(flat[2 * at + 1])] as const
      })
      return [[String(id), new Map(pairs)]]
    }
  }
  return answer.flatMap(entriesIn)
}
