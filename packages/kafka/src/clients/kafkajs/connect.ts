import { answerWithin, CallTimeoutError, endsWithin, LATE } from '@onceward/core/adapter'
import type { Runtime } from '@onceward/core/ports'
import type { Consumer } from 'kafkajs'

export interface ConnectLimits {
  readonly runtime: Runtime
  readonly limitMs: number
  /** False once the consumer was released. */
  readonly isWanted: () => boolean
}

/** Connects in bounded time: kafkajs itself waits without end for an `oauthBearerProvider` that never answers. */
export async function connect(
  consumer: Pick<Consumer, 'connect' | 'disconnect'>,
  { isWanted, limitMs, runtime }: ConnectLimits,
): Promise<void> {
  const connecting = consumer.connect().then(async () => {
    // Released while it was connecting, which kafkajs cannot abort: its socket would keep the process alive.
    if (!isWanted()) await consumer.disconnect()
  })
  const answer = await answerWithin(runtime, connecting, limitMs, { keepAlive: false })
  if (answer === LATE) throw new CallTimeoutError('Connecting to Kafka', limitMs)
}

/** For leaving the group and disconnecting together; kafkajs itself waits as long as an outage lasts (K21). */
const GOODBYE_MS = 3_000

/**
 * Leaves the group and disconnects, after the requests of a consumer that is about to join, and after the join. Resolves
 * in bounded time: kafkajs finishes the rest later. Never rejects.
 *
 * - If a request is under way, the disconnect waits for its answer, and the next request opens a connection that nothing
 *   closes: it keeps the process alive.
 * - kafkajs does not stop a consumer that joins for the first time (`Runner.stop` finds nothing that runs), nor can it be
 *   stopped later: once the broker answers, it is a member for as long as the process lives, and no other member gets its
 *   partitions.
 *
 * @param joining - All of that; never rejects.
 */
export async function disconnect(
  consumer: Pick<Consumer, 'disconnect'>,
  joining: Promise<unknown>,
  runtime: Runtime,
): Promise<void> {
  const disconnecting = joining.then(() => consumer.disconnect())
  await endsWithin(runtime, disconnecting, GOODBYE_MS)
}
