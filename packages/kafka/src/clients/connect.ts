import type { Runtime } from '@onceward/core'
import { answerWithin, CallTimeoutError, LATE } from '@onceward/core/adapter'
import type { Consumer } from 'kafkajs'

export interface ConnectLimits {
  readonly runtime: Runtime
  readonly limitMs: number
  /** False once the consumer was let go. */
  readonly isWanted: () => boolean
}

/** Connects in bounded time: kafkajs itself waits for ever for an `oauthBearerProvider` that never answers. */
export async function connect(
  consumer: Pick<Consumer, 'connect' | 'disconnect'>,
  { isWanted, limitMs, runtime }: ConnectLimits,
): Promise<void> {
  const connecting = consumer.connect().then(async () => {
    // Let go while it was connecting, which kafkajs cannot abort: its socket would keep the process alive.
    if (!isWanted()) await consumer.disconnect()
  })
  const answer = await answerWithin(runtime, connecting, limitMs, { keepAlive: false })
  if (answer === LATE) throw new CallTimeoutError('Connecting to Kafka', limitMs)
}

/**
 * Leaves the group and disconnects, after the join if one is under way. kafkajs does not stop a consumer that joins for
 * the first time (`Runner.stop` finds nothing that runs), nor can it be stopped later: once the broker answers, it is a
 * member for as long as the process lives, and nobody gets its partitions.
 *
 * @param joining - `run()` of that consumer; never rejects.
 */
export async function disconnect(
  consumer: Pick<Consumer, 'disconnect'>,
  joining: Promise<unknown>,
): Promise<void> {
  await joining
  await consumer.disconnect()
}
