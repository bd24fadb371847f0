import type { Logger } from '@onceward/core'
import { type Findings, type GuardSettings, reportFindings, when } from '@onceward/core/adapter'
import type { ConsumerFacts, NatsApi, StreamFacts, Terms } from './client.ts'
import { deadLetterSubject } from './dead-letter.ts'
import { classifyError, consumerMissing, streamMissing } from './errors.ts'
import type { Settings } from './options.ts'

type Asked = Pick<NatsApi, 'consumer' | 'mostReconnects' | 'stream' | 'streamOf'>

export interface Surroundings {
  readonly api: Asked
  readonly settings: Settings
  readonly guard: GuardSettings
  readonly logger: Logger
  /** This process has seen the consumer before, so somebody has removed it and may create it again. */
  readonly hadConsumer: boolean
}

export interface Facts {
  readonly stream: StreamFacts
  readonly consumer: ConsumerFacts
}

const millis = (nanos: number | undefined): number => (nanos ?? 0) / 1_000_000

/** Those of the server, for a consumer that could not be looked at. */
export const unknownTerms = (): Terms => ({
  ackWaitMs: 30_000,
  mostBatch: Number.POSITIVE_INFINITY,
  mostExpiresMs: Number.POSITIVE_INFINITY,
  incarnation: undefined,
})

export function termsOf({ stream, consumer: { config } }: Facts): Terms {
  const { ack_wait, backoff = [], max_batch, max_expires } = config
  const waits = [ack_wait, ...backoff].map(millis).filter((ms) => ms > 0)
  return {
    // The waits of `backoff` are in the place of `ack_wait`.
    ackWaitMs: waits.length === 0 ? unknownTerms().ackWaitMs : Math.min(...waits),
    mostBatch: max_batch || Number.POSITIVE_INFINITY,
    mostExpiresMs: millis(max_expires) || Number.POSITIVE_INFINITY,
    incarnation: stream.created,
  }
}

/** @throws the client's error. */
export async function factsOf(
  api: Pick<Asked, 'consumer' | 'stream'>,
  { stream, consumer }: Pick<Settings, 'stream' | 'consumer'>,
): Promise<Facts> {
  return { stream: await api.stream(stream), consumer: await api.consumer(stream, consumer) }
}

/**
 * Checks the stream and its consumer before the first receive, and again after a receive that failed. Changes nothing.
 *
 * @throws {@link ConfigurationError} when the settings cannot work. Other errors are the client's and may pass.
 */
export async function examine(surroundings: Surroundings): Promise<Terms> {
  const { settings, logger, hadConsumer } = surroundings
  const { stream, consumer } = settings
  const fields = { queue: stream, consumer }
  const facts = await readable(surroundings)
  if (facts === undefined) return unknownTerms()
  const terms = termsOf(facts)
  const consumed = consumerFindings(facts.consumer, terms, surroundings)
  // Its warnings were logged at the start.
  if (hadConsumer) {
    reportFindings([{ problems: consumed.problems, warnings: [] }], logger, fields)
    return terms
  }
  const found = [
    connectionFindings(surroundings.api),
    streamFindings(facts.stream, surroundings),
    consumed,
    await deadLetterFindings(facts, surroundings),
  ]
  reportFindings(found, logger, fields)
  return terms
}

/** Undefined, with a warning, if this user may not ask. Only this check needs that permission. */
async function readable(surroundings: Surroundings): Promise<Facts | undefined> {
  const { api, settings, guard, logger, hadConsumer } = surroundings
  const { stream, consumer } = settings
  try {
    return await factsOf(api, settings)
  } catch (error) {
    const { kind, text } = classifyError(error)
    if (kind === 'denied') {
      const fix = `allow $JS.API.STREAM.INFO.${stream} and $JS.API.CONSUMER.INFO.${stream}.${consumer}`
      const fields = { queue: stream, consumer, reason: text, fix }
      logger.warn(fields, 'the consumer could not be checked; its ack_wait is taken for 30 s')
      return undefined
    }
    if (kind !== 'missing' || hadConsumer) throw error
    if (/stream/i.test(text)) throw streamMissing('stream', stream)
    throw consumerMissing(stream, consumer, wantedWait(guard))
  }
}

/** Below it the time of a request, and of a renewal, would be much of it. */
const LEAST_ACK_WAIT_MS = 1_000

/** A lease is free when the message of a dead process returns. */
const wantedWait = ({ leaseMs }: GuardSettings): string =>
  `${Math.ceil((leaseMs + Math.max(1_000, leaseMs / 10)) / 1_000)}s`

function connectionFindings({ mostReconnects = -1 }: Pick<Asked, 'mostReconnects'>): Findings {
  return {
    problems: [],
    warnings: when(
      mostReconnects !== -1,
      `The connection closes for ever after ${mostReconnects} failed reconnects, and the consumer ends. Give ` +
        '`connect({ maxReconnectAttempts: -1 })`.',
    ),
  }
}

export function streamFindings(
  { config }: Pick<StreamFacts, 'config'>,
  { guard }: Pick<Surroundings, 'guard'>,
): Findings {
  const { name, retention, max_age, discard, storage, num_replicas: replicas } = config
  const keepsDone = retention === 'limits'
  const keptMs = millis(max_age)
  const isMemory = storage === 'memory'
  const isBounded = [config.max_msgs, config.max_bytes, config.max_msgs_per_subject ?? -1].some(
    (limit) => limit > 0,
  )
  return {
    problems: when(
      keepsDone && keptMs > guard.dedupWindowMs,
      `${name} keeps messages for ${keptMs} ms (max_age), longer than the guard's \`dedupWindowMs\` of ` +
        `${guard.dedupWindowMs}: a consumer that is created again would get messages whose events were forgotten, and ` +
        'process them twice. Raise `dedupWindowMs` or lower max_age.',
    ),
    warnings: [
      ...when(
        keepsDone && keptMs === 0,
        `${name} keeps messages without a limit of time, the guard remembers an event for \`dedupWindowMs\`, ` +
          `${guard.dedupWindowMs} ms. Older messages are processed again when the consumer is created again. Set max_age.`,
      ),
      ...when(
        isBounded && discard === 'old',
        `${name} discards its oldest messages when it is full (discard old), also those that were not processed. Set ` +
          'discard new, so that the producer is refused.',
      ),
      ...when(
        isMemory,
        `${name} is in memory (storage memory): a restart of its ${replicas} server(s) loses messages that were not ` +
          'processed. Set storage file.',
      ),
      ...when(
        !isMemory && replicas < 3,
        `${name} is on ${replicas} server(s) (num_replicas). A message that was confirmed is on the disk when ` +
          '`sync_interval` of the server is over, 2 minutes by default: a crash of the machine loses it. Set ' +
          'num_replicas 3 on machines that do not fail together, or `sync_interval: always`, which cannot be read from here.',
      ),
      ...when(
        config.persist_mode === 'async',
        `${name} confirms messages before they are written (persist_mode async): a crash of the server loses them.`,
      ),
    ],
  }
}

/** Deliveries that one message may need before its attempts are spent. */
export function deliveryBudget(guard: GuardSettings, ackWaitMs: number): number {
  return guard.maxAttempts + 2 * Math.ceil(guard.deadlineMs / ackWaitMs) + 5
}

export function consumerFindings(
  facts: ConsumerFacts,
  { ackWaitMs }: Pick<Terms, 'ackWaitMs'>,
  surroundings: Pick<Surroundings, 'settings' | 'guard'>,
): Findings {
  const { settings } = surroundings
  const named = {
    ...surroundings,
    ackWaitMs,
    name: `The consumer ${settings.consumer} of ${settings.stream}`,
  }
  return { problems: consumerProblems(facts, named), warnings: consumerWarnings(facts, named) }
}

interface Named extends Pick<Surroundings, 'settings' | 'guard'>, Pick<Terms, 'ackWaitMs'> {
  readonly name: string
}

const VANISH =
  'after them the server never delivers it again, and says so in an advisory only. Set max_deliver -1: the guard counts the ' +
  'attempts.'

const mostOf = ({ max_deliver: most = -1 }: ConsumerFacts['config']): number =>
  most > 0 ? most : Number.POSITIVE_INFINITY

function consumerProblems(
  { config }: ConsumerFacts,
  { ackWaitMs, guard, name }: Named,
): readonly string[] {
  const risk =
    config.ack_policy === 'all'
      ? 'an ack would settle the messages before it too, which may still run'
      : 'a message whose process dies is lost, as on an ordered consumer'
  return [
    ...when(
      config.deliver_subject !== undefined,
      `${name} is a push consumer (deliver_subject). Create a pull consumer.`,
    ),
    ...when(
      config.ack_policy !== 'explicit',
      `${name} has the ack policy ${config.ack_policy}: ${risk}. Create a consumer with ack_policy explicit.`,
    ),
    ...when(
      config.headers_only === true,
      `${name} delivers no bodies (headers_only). Create one that does.`,
    ),
    ...when(
      (config.priority_groups?.length ?? 0) > 0,
      `${name} has priority_groups, whose requests must name a group. Create one without.`,
    ),
    ...when(
      ackWaitMs < LEAST_ACK_WAIT_MS,
      `${name} gives a message to others after ${ackWaitMs} ms (ack_wait, or a wait of backoff), which is too short to ` +
        `renew it. Set ${wantedWait(guard)}.`,
    ),
    ...when(
      mostOf(config) < guard.maxAttempts,
      `${name} delivers a message ${config.max_deliver} times (max_deliver), fewer than the guard's ${guard.maxAttempts} ` +
        `attempts: ${VANISH}`,
    ),
  ]
}

function consumerWarnings(
  { config, paused }: ConsumerFacts,
  { ackWaitMs, guard, name, settings }: Named,
): readonly string[] {
  const { inactive_threshold, max_ack_pending: mostPending = -1 } = config
  const most = mostOf(config)
  const slots =
    guard.transaction === 'batch' ? guard.concurrency * settings.batchSize : guard.concurrency
  return [
    ...when(
      most >= guard.maxAttempts && most < deliveryBudget(guard, ackWaitMs),
      `${name} delivers a message ${most} times (max_deliver), which waits and takeovers may spend before its ` +
        `${guard.maxAttempts} attempts: ${VANISH}`,
    ),
    ...when(
      ackWaitMs >= LEAST_ACK_WAIT_MS && ackWaitMs < guard.leaseMs,
      `${name} gives a message to others after ${ackWaitMs} ms (ack_wait, or a wait of backoff), shorter than the guard's ` +
        `lease of ${guard.leaseMs} ms: the message of a dead process returns while its lease still runs and costs a ` +
        `delivery. Set ${wantedWait(guard)}, or shorten \`leaseMs\`.`,
    ),
    ...when(
      mostPending > 0 && mostPending < slots,
      `${name} lets ${mostPending} messages be unsettled (max_ack_pending), fewer than the ${slots} that the guard works on ` +
        'at once in each process; messages that wait for another attempt count too. Raise it, or lower `concurrency`.',
    ),
    ...when(
      (inactive_threshold ?? 0) > 0,
      `${name} is removed when nobody receives for ${millis(inactive_threshold)} ms (inactive_threshold), and its place in ` +
        'the stream with it. Create a durable one without.',
    ),
    ...when(
      config.mem_storage === true,
      `${name} keeps its place in memory (mem_storage): a restart delivers what is in the stream again.`,
    ),
    ...when(paused === true, `${name} is paused, and delivers nothing until it is resumed.`),
  ]
}

async function deadLetterFindings(
  { consumer: { config }, stream }: Facts,
  { api, settings }: Pick<Surroundings, 'api' | 'settings'>,
): Promise<Findings> {
  const { deadLetter } = settings
  if (deadLetter === undefined) return { problems: [], warnings: [] }
  const { stream: target } = deadLetter
  if (target !== undefined && (await isMissing(api, target))) {
    throw streamMissing('deadLetter.stream', target)
  }
  const subject = await deadLetterSubject(api, deadLetter, settings.stream)
  const taker = await api.streamOf(subject)
  const { filter_subject: one, filter_subjects = one ? [one] : ['>'] } = config
  const comesBack =
    taker === stream.config.name && filter_subjects.some((filter) => matches(filter, subject))
  return {
    problems: [
      ...when(
        taker === undefined,
        `No stream takes the subject of \`deadLetter\`, ${subject}: a dead message could not be published. Create one: ` +
          `\`nats stream add DEAD --subjects '${subject}'\`.`,
      ),
      ...when(
        target !== undefined && taker !== undefined && taker !== target,
        `The subject of \`deadLetter\`, ${subject}, belongs to the stream ${taker} and not to \`deadLetter.stream\`, ${target}.`,
      ),
      ...when(
        comesBack,
        `The subject of \`deadLetter\`, ${subject}, is in ${stream.config.name}, and its consumer receives it: a dead message ` +
          'would come back again and again. Publish to another stream.',
      ),
    ],
    warnings: [],
  }
}

async function isMissing(api: Asked, stream: string): Promise<boolean> {
  try {
    await api.stream(stream)
    return false
  } catch (error) {
    if (classifyError(error).kind === 'missing') return true
    throw error
  }
}

/** Whether a filter with wildcards takes a subject. */
export function matches(filter: string, subject: string): boolean {
  const [wanted, given] = [filter.split('.'), subject.split('.')]
  const isOpen = wanted.at(-1) === '>'
  if (isOpen ? given.length < wanted.length : given.length !== wanted.length) return false
  return wanted.every((token, at) => token === '*' || token === '>' || token === given[at])
}
