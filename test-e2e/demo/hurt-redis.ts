import {
  type RedisConnection,
  redis,
  type Server,
  ServerMissingError,
} from '@onceward/testing/servers'
import { Redis } from 'ioredis'
import { UsageError } from '../support/command-line.ts'
import type { Progress } from './progress.ts'

interface Blow {
  /** Due when this share of the orders is charged. */
  readonly at: number
  strike(): Promise<string>
}

/** The Redis of the demo. During the run it is flushed, killed and restarted without data. */
export class HurtRedis implements AsyncDisposable {
  readonly #server: Server<RedisConnection>
  readonly #progress: Progress
  readonly #blows: Blow[]

  private constructor(server: Server<RedisConnection>, progress: Progress) {
    this.#server = server
    this.#progress = progress
    this.#blows = [
      { at: 0.3, strike: () => this.#flush() },
      { at: 0.5, strike: () => this.#kill() },
      { at: 0.7, strike: () => this.#restart() },
    ]
  }

  /** @throws {@link UsageError} if there is no Redis that the demo may kill. */
  static async start(progress: Progress): Promise<HurtRedis> {
    // Without a file on disk a killed Redis comes back empty.
    const server = await redis({ settings: { appendonly: 'no' } }).catch((error: unknown) => {
      if (!(error instanceof ServerMissingError)) throw error
      throw new UsageError(`--redis needs a Redis of its own. ${error.message}`)
    })
    if (server.canKill) return new HurtRedis(server, progress)
    throw new UsageError(
      '--redis flushes and kills Redis: unset ONCEWARD_REDIS_URL, so that it is not yours',
    )
  }

  get url(): string {
    return this.#server.connection.url
  }

  /** Plays the blows that are due when this share of the orders is charged. */
  async suffer(share: number): Promise<void> {
    for (let [next] = this.#blows; next !== undefined && share >= next.at; [next] = this.#blows) {
      this.#blows.shift()
      this.#progress.line(`  ${await next.strike()}`)
    }
  }

  async #flush(): Promise<string> {
    const client = new Redis(this.url)
    try {
      const keys = await client.dbsize()
      await client.flushall()
      return `Redis flushed: ${keys} keys gone`
    } finally {
      client.disconnect()
    }
  }

  async #kill(): Promise<string> {
    await this.#server.kill()
    return 'Redis killed by SIGKILL'
  }

  async #restart(): Promise<string> {
    await this.#server.restart()
    return 'Redis restarted, with nothing in it'
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#server.stop()
  }
}
