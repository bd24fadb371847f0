import { ConfigurationError, type Logger } from '@onceward/core'
import { type Findings, hasMethod, reportFindings, when } from '@onceward/core/adapter'
import type { AmqpConnection } from './client.ts'
import { checkThere, type OpenChannel } from './clients/calls.ts'
import { serverVersion } from './clients/connector.ts'
import { describeQueue, isQuorumQueue, type QueueShape } from './clients/queue-shape.ts'
import { virtualHostOf } from './clients/virtual-host.ts'
import { classifyError, exchangeMissing, queueMissing } from './errors.ts'
import type { Settings } from './options.ts'
import { assertLevels, type Levels, levelsOf } from './topology.ts'

export interface Surroundings {
  readonly connection: Pick<AmqpConnection, 'createChannel'>
  readonly settings: Settings
  readonly logger: Logger
}

/** What a queue needs on every connection, and how it may be consumed. */
export interface Examined {
  readonly levels: Levels
  /** Also if it is unknown. */
  readonly isSingleActive: boolean
  /** Where the broker sends what is rejected, under the key that the message has then. Undefined if unknown. */
  readonly rejectsTo: string | undefined
  /** Undefined if unknown, or if nothing is published to it. */
  readonly virtualHost: string | undefined
}

/**
 * Checks the queue and the dead-letter place before the first delivery and declares the delay queues.
 *
 * @throws {@link ConfigurationError} when the settings cannot work. Other errors are the client's and may pass.
 */
export async function examine(surroundings: Surroundings): Promise<Examined> {
  const { connection, settings } = surroundings
  const open = () => connection.createChannel()
  const shape = await inspect(surroundings)
  const levels = levelsOf(settings.queue, settings.levelsMs, shape)
  await assertLevels(open, levels)
  const isPublished = typeof settings.deadLetter === 'object'
  const virtualHost = isPublished ? await virtualHostOf(open) : undefined
  const isSingleActive = shape === undefined || shape.arguments['x-single-active-consumer'] === true
  return { levels, isSingleActive, virtualHost, rejectsTo: exchangeByOwnKey(shape) }
}

/** The dead-letter exchange of a queue that gives dead messages no routing key. */
function exchangeByOwnKey(shape: QueueShape | undefined): string | undefined {
  const { 'x-dead-letter-exchange': exchange, 'x-dead-letter-routing-key': key } =
    shape?.arguments ?? {}
  return key === undefined && typeof exchange === 'string' ? exchange : undefined
}

/** The checks of {@link examine}. Declares nothing, and answers how the queue was declared, as far as it is known. */
export async function inspect({
  connection,
  settings,
  logger,
}: Surroundings): Promise<QueueShape | undefined> {
  const { queue } = settings
  const open = openerOf(connection)
  await checkPlaces(open, settings)
  const shape = await describeQueue(open, queue)
  if (shape === 'missing') throw queueMissing('queue', queue)
  const found =
    shape === undefined
      ? unknownFindings(queue)
      : queueFindings(shape, { settings, version: await versionOf(open) })
  reportFindings([found, levelFindings(settings)], logger, { queue })
  if (shape !== undefined) await checkExchangeOf(open, shape)
  return shape
}

/** @throws {@link ConfigurationError} for amqplib's API with callbacks: a consumer on it would run, and receive nothing. */
function openerOf(connection: Surroundings['connection']): OpenChannel {
  return async () => {
    const opening: unknown = connection.createChannel()
    if (hasMethod(opening, 'then')) return opening as ReturnType<OpenChannel>
    throw new ConfigurationError(
      'Expected `createChannel()` of the connection to answer a promise. Connect with `amqplib`, not with ' +
        '`amqplib/callback_api`.',
    )
  }
}

async function checkPlaces(open: OpenChannel, { queue, deadLetter }: Settings): Promise<void> {
  try {
    await checkThere(
      open,
      (channel) => channel.checkQueue(queue),
      () => queueMissing('queue', queue),
    )
  } catch (error) {
    throw classifyError(error).kind === 'locked' ? exclusive(queue) : error
  }
  if (typeof deadLetter !== 'object') return
  if ('queue' in deadLetter) {
    const { queue: dead } = deadLetter
    const missing = () => queueMissing('deadLetter.queue', dead)
    return checkThere(open, (channel) => channel.checkQueue(dead), missing)
  }
  const { exchange } = deadLetter
  const missing = () => exchangeMissing('deadLetter.exchange', exchange)
  await checkThere(open, (channel) => channel.checkExchange(exchange), missing)
}

/** A queue whose dead-letter exchange is missing silently drops what it dead-letters. */
async function checkExchangeOf(open: OpenChannel, shape: QueueShape): Promise<void> {
  const exchange = shape.arguments['x-dead-letter-exchange']
  if (typeof exchange !== 'string' || exchange === '') return
  const missing = () => exchangeMissing('x-dead-letter-exchange', exchange)
  await checkThere(open, (channel) => channel.checkExchange(exchange), missing)
}

async function versionOf(open: OpenChannel): Promise<readonly [number, number] | undefined> {
  const channel = await open()
  channel.on('error', () => undefined)
  const version = serverVersion(channel)
  await channel.close()
  return version
}

export interface QueueFacts {
  readonly settings: Pick<Settings, 'queue' | 'deadLetter' | 'deadLetterPolicy'>
  readonly version: readonly [number, number] | undefined
}

export function queueFindings(shape: QueueShape, facts: QueueFacts): Findings {
  const { queue } = facts.settings
  return {
    problems: [
      ...when(
        shape.arguments['x-queue-type'] === 'stream',
        `'${queue}' is a stream: its messages cannot be given back one by one. Use a classic or a quorum queue.`,
      ),
      ...when(
        shape.autoDelete,
        `'${queue}' is declared with auto_delete: it goes with its messages when its last consumer does, and a ` +
          'consumer pauses while the store is down. Declare it without.',
      ),
      ...when(shape.exclusive, exclusive(queue).message),
      ...when(
        facts.settings.deadLetter === 'dlx' && leadsBack(shape, facts),
        `\`deadLetter\` is 'dlx', and the x-dead-letter-exchange of '${queue}' is the default one, which returns to ` +
          `'${queue}' what was published to it: a dead message would come back again and again. Name another queue in ` +
          'x-dead-letter-routing-key, or name a target in `deadLetter`.',
      ),
      ...limitProblems(shape, facts),
    ],
    warnings: [
      ...when(
        !shape.durable,
        `'${queue}' is not durable: a restart of its node loses it with its messages. Declare it durable.`,
      ),
      ...limitWarnings(shape, facts),
      ...lossWarnings(shape, facts),
      ...when(
        facts.settings.deadLetter === 'dlx' &&
          !(hasExchange(shape, facts) || leadsBack(shape, facts)),
        `\`deadLetter\` is 'dlx', but '${queue}' has no x-dead-letter-exchange of its own: unless a policy gives it ` +
          'one, the broker drops dead messages. Then say so with `deadLetterPolicy`, else name a target.',
      ),
    ],
  }
}

const hasExchange = (shape: QueueShape, facts: QueueFacts): boolean =>
  facts.settings.deadLetterPolicy ||
  (shape.arguments['x-dead-letter-exchange'] !== undefined && !leadsBack(shape, facts))

/** The queue dead-letters into itself. The broker drops such a message unless it was rejected, and then brings it again. */
function leadsBack(shape: QueueShape, { settings: { queue } }: QueueFacts): boolean {
  const { 'x-dead-letter-exchange': exchange, 'x-dead-letter-routing-key': key } = shape.arguments
  return exchange === '' && (key ?? queue) === queue
}

/** Trap T22: beyond its delivery limit the broker drops a message that has no dead-letter exchange. */
function limitProblems(shape: QueueShape, facts: QueueFacts): readonly string[] {
  const { queue, deadLetter } = facts.settings
  const limit = Number(shape.arguments['x-delivery-limit'] ?? -1)
  return when(
    isQuorumQueue(shape) && limit >= 0 && deadLetter !== 'dlx' && !hasExchange(shape, facts),
    `'${queue}' is a quorum queue with x-delivery-limit ${limit} and no x-dead-letter-exchange to another queue: the ` +
      'broker drops a message, unprocessed, whose consumers died that often, and those that were prefetched beside it. Declare it ' +
      "with an x-dead-letter-exchange, or set one by policy and say so with `deadLetterPolicy` or `deadLetter: 'dlx'`.",
  )
}

/** Since 4.0 every quorum queue has a delivery limit of 20. */
function limitWarnings(shape: QueueShape, facts: QueueFacts): readonly string[] {
  const { queue } = facts.settings
  const isLimited = (facts.version?.[0] ?? 0) >= 4 && !('x-delivery-limit' in shape.arguments)
  return when(
    isQuorumQueue(shape) && isLimited && !hasExchange(shape, facts),
    `'${queue}' has the delivery limit of 20 that RabbitMQ 4 gives every quorum queue, and no dead-letter exchange ` +
      'that a client can see: a message whose consumers die that often is dropped. Declare or set one, or an ' +
      'x-delivery-limit of -1.',
  )
}

/** A queue may lose messages by its own rules, which a consumer cannot prevent. */
function lossWarnings(shape: QueueShape, facts: QueueFacts): readonly string[] {
  const { queue } = facts.settings
  const { 'x-expires': expires, 'x-message-ttl': ttl, 'x-overflow': overflow } = shape.arguments
  const isKept = hasExchange(shape, facts)
  const hasLimit = ['x-max-length', 'x-max-length-bytes'].some((name) => name in shape.arguments)
  const dropsHead = hasLimit && (overflow === undefined || overflow === 'drop-head')
  return [
    ...when(
      expires !== undefined,
      `'${queue}' goes with its messages ${text(expires)} ms after its last consumer (x-expires): while no consumer ` +
        'runs, or none can connect, it loses them all. Declare it without.',
    ),
    ...when(
      ttl !== undefined && !isKept,
      `The broker drops messages that wait in '${queue}' for ${text(ttl)} ms (x-message-ttl), during an outage too, ` +
        'and no dead-letter exchange that a client can see takes them. Declare it without, or with one.',
    ),
    ...when(
      dropsHead && !isKept,
      `A full '${queue}' drops its oldest messages (x-max-length), also those that return to it, and no dead-letter ` +
        "exchange that a client can see takes them. Declare it with x-overflow 'reject-publish', or with one.",
    ),
  ]
}

const text = (value: unknown): string => String(value)

/** Longer waits go round the broker and the store, once per longest level. */
const QUICK_ROUND_MS = 1_000

export function levelFindings({ levelsMs }: Pick<Settings, 'levelsMs'>): Findings {
  const longestMs = levelsMs.at(-1) ?? 0
  const warnings = when(
    longestMs < QUICK_ROUND_MS,
    `The longest of \`retryLevelsMs\` is ${longestMs} ms: each message that must wait longer is published, delivered ` +
      'and looked up in the store that often, again and again. Add a level of 30000 or more.',
  )
  return { problems: [], warnings }
}

function unknownFindings(queue: string): Findings {
  const text =
    `The arguments of '${queue}' could not be read: this user may not declare it, or the server does not say. ` +
    'Check that it is not a stream, and that a delivery limit has a dead-letter exchange beside it.'
  return { problems: [], warnings: [text] }
}

const exclusive = (queue: string): ConfigurationError =>
  new ConfigurationError(
    `'${queue}' is an exclusive queue: it goes with the connection that declared it, and a message that waits in a ` +
      'delay queue has nowhere to return to. Declare it without `exclusive`.',
  )
