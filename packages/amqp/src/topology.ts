import { ConfigurationError } from '@onceward/core'
import { shown } from '@onceward/core/adapter'
import type { AmqpChannel, AmqpConfirmChannel, AmqpConnection } from './client.ts'
import { exists, type OpenChannel, onChannel } from './clients/calls.ts'
import { serverVersion } from './clients/connector.ts'
import { describeQueue, isQuorumQueue, type QueueShape } from './clients/queue-shape.ts'
import { classifyError } from './errors.ts'
import { levelProblems, nameProblems } from './options.ts'

/** The delay queue of a level. */
export const levelQueue = (queue: string, levelMs: number): string => `${queue}.retry.${levelMs}`

/** The shortest level that is long enough, else the longest: a message that returns too early is deferred again. */
export function levelFor(levelsMs: readonly number[], waitMs: number): number {
  const level = levelsMs.find((each) => each >= waitMs) ?? levelsMs.at(-1)
  if (level === undefined) throw new ConfigurationError('There is no delay level.')
  return level
}

/**
 * Declares what `consumeAmqp` and `wrapAmqp` need beside a queue that exists: one delay queue per level
 * (`<queue>.retry.<ms>`, whose messages go back to the queue when their time is over) and `<queue>.dead`, unless it
 * is there. Quorum queues where the queue is one; the delay queues also where the queue refuses publishers when it is
 * full (`x-overflow`). For operators; `consumeAmqp` declares its delay queues itself where it may.
 *
 * @param channel - Its connection is used; the channel itself stays as it is.
 * @param levels - Milliseconds of each level.
 * @returns The names of the delay queues.
 * @throws {@link ConfigurationError} when the queue does not exist, or a delay queue exists with another argument,
 * which it names.
 */
export async function assertRetryTopology(
  channel: AmqpChannel | AmqpConnection,
  queue: string,
  levels: readonly number[],
): Promise<readonly string[]> {
  const problems = [
    ...nameProblems('queue', queue, '.retry.'.length + 10),
    ...levelProblems('levels', levels),
  ]
  if (problems.length > 0) throw new ConfigurationError(problems.join('\n'))
  const open = 'createChannel' in channel ? () => channel.createChannel() : besides(channel)
  const shape = await describeQueue(open, queue)
  if (shape === 'missing') {
    throw new ConfigurationError(`The queue '${shown(queue)}' does not exist. Declare it first.`)
  }
  await assertLevels(open, levelsOf(queue, levels, shape))
  await assertDeadQueue(open, `${queue}.dead`, isQuorumQueue(shape))
  return levels.map((levelMs) => levelQueue(queue, levelMs))
}

/** Opens other channels on the connection of a channel, as amqplib itself does. */
export function besides(channel: AmqpChannel): OpenChannel {
  type Again = new (connection: unknown) => AmqpChannel & { open(): Promise<unknown> }
  return async () => {
    const other = new (channel.constructor as Again)(channel.connection)
    if (typeof other.open !== 'function') {
      throw new ConfigurationError(
        'Expected a channel of amqplib, or a connection, got something around one.',
      )
    }
    await other.open()
    return other
  }
}

/** The class and method of AMQP that a channel with publisher confirms begins with, and of its answer. */
const CONFIRM_SELECT = 0x55_000a
const CONFIRM_SELECT_OK = 0x55_000b

/** Like {@link besides}, for channels with publisher confirms. */
export function confirmingBeside(channel: AmqpConfirmChannel): () => Promise<AmqpConfirmChannel> {
  type Calling = AmqpConfirmChannel & {
    rpc(method: number, fields: object, answer: number): Promise<unknown>
  }
  const open = besides(channel)
  return async () => {
    const other = (await open()) as Calling
    await other.rpc(CONFIRM_SELECT, { nowait: false }, CONFIRM_SELECT_OK)
    return other
  }
}

export interface Levels {
  readonly queue: string
  readonly levelsMs: readonly number[]
  readonly isQuorum: boolean
  /** The queue refuses publishers while it is full, and delay queues too. */
  readonly mayRefuse: boolean
}

/** The delay queues of a queue of this shape. */
export function levelsOf(
  queue: string,
  levelsMs: readonly number[],
  shape: QueueShape | undefined,
): Levels {
  const mayRefuse = String(shape?.arguments['x-overflow']).startsWith('reject-publish')
  return { queue, levelsMs, isQuorum: isQuorumQueue(shape), mayRefuse }
}

/**
 * Declares the delay queues, or checks the existing ones.
 *
 * @throws {@link ConfigurationError} naming the argument that differs, or the queues that are missing where this
 * user may not declare any.
 */
export async function assertLevels(open: OpenChannel, levels: Levels): Promise<void> {
  const missing: string[] = []
  for (const levelMs of levels.levelsMs) {
    const found = await assertLevel(open, levels, levelMs)
    if (found === 'missing') missing.push(levelQueue(levels.queue, levelMs))
  }
  if (missing.length === 0) return
  if (levels.queue.startsWith('amq.')) throw reserved(levels.queue)
  throw new ConfigurationError(
    `The delay queues ${missing.join(', ')} do not exist, and this user may not declare them. Run ` +
      'assertRetryTopology() of @onceward/amqp as one who may, or allow `configure` and `read` on them and `write` on ' +
      'the default exchange (amq.default).',
  )
}

const reserved = (queue: string): ConfigurationError =>
  new ConfigurationError(
    `'${queue}' begins with 'amq.', and RabbitMQ does not allow declaring queues with such names, so it can have no delay ` +
      'queues. Declare the queue under a name of your own.',
  )

async function assertLevel(
  open: OpenChannel,
  levels: Levels,
  levelMs: number,
): Promise<'found' | 'missing'> {
  const name = levelQueue(levels.queue, levelMs)
  const answer = await onChannel(open, (channel) => {
    const declared = declaredArguments(channel, levels, levelMs)
    return channel.assertQueue(name, { durable: true, arguments: declared })
  })
  if (answer.kind === 'done') return 'found'
  const { kind } = classifyError(answer.error)
  if (kind === 'denied') return (await exists(open, name)) ? 'found' : 'missing'
  const shape = kind === 'refused' ? await describeQueue(open, name) : undefined
  if (shape === undefined || shape === 'missing') throw answer.error
  const differences = differencesOf(shape, neededArguments(levels, levelMs))
  // A delay queue of another type, or with limits of the operator's, works too.
  if (differences.length === 0) return 'found'
  throw new ConfigurationError(
    `The delay queue '${name}' exists with ${differences.join(' and ')}. Delete it once it is empty, or name other ` +
      'levels in `retryLevelsMs`.',
  )
}

type Arguments = QueueShape['arguments']

/** Quorum queues support a message TTL, and dead-lettering that waits for a confirm, since 3.10. */
function keepsUntilConfirmed(channel: AmqpChannel): boolean {
  const [major, minor] = serverVersion(channel) ?? [4, 0]
  return major > 3 || minor >= 10
}

/** @throws {@link ConfigurationError} when no delay queue of this server would be safe. */
function declaredArguments(
  channel: AmqpChannel,
  { queue, isQuorum, mayRefuse }: Levels,
  levelMs: number,
): Arguments {
  const plain = plainArguments(queue, levelMs)
  if (!isQuorum && !mayRefuse) return plain
  if (keepsUntilConfirmed(channel)) return { ...plain, ...CONFIRMED }
  if (!mayRefuse) return plain
  throw new ConfigurationError(
    `'${queue}' refuses publishers when it is full (x-overflow), and before RabbitMQ 3.10 a delay queue offers a ` +
      'message once: a deferred one would be lost. Declare it without, or update the server.',
  )
}

/** What an existing delay queue must have. */
const neededArguments = ({ queue, mayRefuse }: Levels, levelMs: number): Arguments => ({
  ...plainArguments(queue, levelMs),
  // It would go with its messages: a delay queue never has a consumer.
  'x-expires': undefined,
  ...(mayRefuse ? CONFIRMED : {}),
})

const plainArguments = (queue: string, levelMs: number): Arguments => ({
  'x-message-ttl': levelMs,
  'x-dead-letter-exchange': '',
  'x-dead-letter-routing-key': queue,
})

/** A classic queue, or another strategy, loses a message that its queue does not take when the delay ends. */
const CONFIRMED: Arguments = {
  'x-queue-type': 'quorum',
  'x-dead-letter-strategy': 'at-least-once',
  'x-overflow': 'reject-publish',
}

function differencesOf(shape: QueueShape, wanted: Arguments): readonly string[] {
  const { durable, arguments: found } = shape
  const differing = Object.entries(wanted).filter(([name, value]) => found[name] !== value)
  return [
    ...differing.map(([name, value]) => `${name} ${text(found[name])} instead of ${text(value)}`),
    ...(durable ? [] : ['durable false instead of true']),
  ]
}

const text = (value: unknown): string => (value === undefined ? 'none' : `'${String(value)}'`)

async function assertDeadQueue(open: OpenChannel, name: string, isQuorum: boolean): Promise<void> {
  if (await exists(open, name)) return
  const type = isQuorum ? { 'x-queue-type': 'quorum' } : {}
  const answer = await onChannel(open, (channel) =>
    channel.assertQueue(name, { durable: true, arguments: type }),
  )
  if (answer.kind === 'failed') throw answer.error
}
