import type { Logger } from '@onceward/core'
import { type Findings, type GuardSettings, reportFindings, when } from '@onceward/core/adapter'
import type { QueueAttributes, SqsApi } from './client.ts'
import { classifyError, queueMissing, regionMissing } from './errors.ts'
import { isFifo, marginMs, type Settings } from './options.ts'

export interface Surroundings {
  readonly api: Pick<SqsApi, 'attributes' | 'longestPollMs'>
  readonly settings: Settings
  readonly guard: GuardSettings
  readonly logger: Logger
}

/**
 * Checks the queues before the first receive.
 *
 * @throws {@link ConfigurationError} when the settings cannot work. Other errors are the client's and may pass.
 */
export async function examine(surroundings: Surroundings): Promise<void> {
  const { settings, logger } = surroundings
  const { queueUrl, deadLetter } = settings
  const source = await attributesOf(surroundings, 'queueUrl', queueUrl)
  const dead =
    typeof deadLetter === 'object'
      ? await attributesOf(surroundings, 'deadLetter.queueUrl', deadLetter.queueUrl)
      : undefined
  const found = [
    source === undefined ? [] : [sourceFindings(source, surroundings)],
    source === undefined || dead === undefined ? [] : [deadLetterFindings(source, dead, settings)],
    [visibilityFindings(surroundings), orderFindings(settings), timeoutFindings(surroundings)],
  ].flat()
  reportFindings(found, logger, { queue: queueUrl })
}

/** Undefined, with a warning, if this identity may not read the attributes. Only this check needs that permission. */
async function attributesOf(
  { api, logger }: Surroundings,
  option: string,
  queueUrl: string,
): Promise<QueueAttributes | undefined> {
  try {
    return await api.attributes(queueUrl)
  } catch (error) {
    const { kind, text } = classifyError(error)
    if (kind === 'queue-missing') throw queueMissing(option, queueUrl)
    if (kind !== 'denied') throw regionMissing(error) ?? error
    logger.warn(
      { queue: queueUrl, reason: text, fix: 'allow sqs:GetQueueAttributes on this queue' },
      'the queue could not be checked',
    )
    return undefined
  }
}

/** Receives that one message may need before its attempts are spent (brokers.md §5.8). */
export function receiveBudget(guard: GuardSettings, visibilityMs: number): number {
  return guard.maxAttempts + 2 * Math.ceil(guard.deadlineMs / visibilityMs) + 5
}

export function sourceFindings(
  source: QueueAttributes,
  { settings, guard }: Pick<Surroundings, 'settings' | 'guard'>,
): Findings {
  const { queueUrl, deadLetter, visibilityMs } = settings
  const retentionMs = secondsOf(source.MessageRetentionPeriod)
  const queueVisibilityMs = secondsOf(source.VisibilityTimeout)
  const budget = receiveBudget(guard, visibilityMs)
  const maxReceives = maxReceivesOf(source)
  return {
    problems: [
      ...when(
        retentionMs > guard.dedupWindowMs,
        `${queueUrl} keeps messages for ${retentionMs} ms (MessageRetentionPeriod), longer than the guard's ` +
          `\`dedupWindowMs\` of ${guard.dedupWindowMs}: a message could come back after its event was forgotten ` +
          'and be processed twice. Raise `dedupWindowMs` or lower the retention.',
      ),
      ...when(
        deadLetter === 'redrive' &&
          source.RedrivePolicy === undefined &&
          Object.keys(source).length > 0,
        `\`deadLetter\` is 'redrive', but ${queueUrl} has no RedrivePolicy: dead messages would come back until ` +
          'their retention ends. Set one, or name a queue in `deadLetter`.',
      ),
    ],
    warnings: [
      ...when(
        source.FifoQueue === 'true' && !isFifo(queueUrl),
        `${queueUrl} is a FIFO queue by its attributes but not by its name. Use the queue's own URL.`,
      ),
      ...when(
        deadLetter !== 'redrive' &&
          source.RedrivePolicy === undefined &&
          Object.keys(source).length > 0,
        `${queueUrl} has no RedrivePolicy: a message that can never be settled, while the store is down for ` +
          `days, is deleted by SQS when its retention ends. Set one with maxReceiveCount ${budget} or more.`,
      ),
      ...when(
        maxReceives < budget,
        `The RedrivePolicy of ${queueUrl} moves a message away after ${maxReceives} receives, before its ` +
          `${guard.maxAttempts} attempts may be spent: deferrals and takeovers need receives too. Set ` +
          `maxReceiveCount to ${budget} or more.`,
      ),
      ...when(
        queueVisibilityMs < guard.leaseMs,
        `The VisibilityTimeout of ${queueUrl} is ${queueVisibilityMs} ms, shorter than the guard's lease of ` +
          `${guard.leaseMs} ms. consumeSqs asks for ${visibilityMs} ms itself; for every other reader set it to ` +
          `${(guard.leaseMs + marginMs(guard.leaseMs)) / 1_000} seconds or more.`,
      ),
    ],
  }
}

export function deadLetterFindings(
  source: QueueAttributes,
  dead: QueueAttributes,
  { queueUrl, deadLetter }: Settings,
): Findings {
  const deadUrl = typeof deadLetter === 'object' ? deadLetter.queueUrl : ''
  const [size, deadSize] = [Number(source.MaximumMessageSize), Number(dead.MaximumMessageSize)]
  const kept = secondsOf(source.MessageRetentionPeriod)
  const deadKept = secondsOf(dead.MessageRetentionPeriod)
  return {
    problems: when(
      source.QueueArn !== undefined && source.QueueArn === dead.QueueArn,
      `${queueUrl} and ${deadUrl} are the same queue: a dead message would come back again and again. Name another queue ` +
        'in `deadLetter`.',
    ),
    warnings: [
      ...when(
        isFifo(queueUrl) !== isFifo(deadUrl),
        `${queueUrl} and ${deadUrl} are of different types: SQS cannot redrive between them, and a standard ` +
          'queue loses the order of a FIFO one. Use two queues of the same type.',
      ),
      ...when(
        size > deadSize,
        `${deadUrl} takes messages of at most ${deadSize} bytes, ${queueUrl} of ${size}: a larger dead message ` +
          'could not be sent there and would be tried again until its retention ends. Set the same MaximumMessageSize.',
      ),
      ...when(
        deadKept < kept,
        `${deadUrl} keeps messages for ${deadKept} ms, shorter than ${queueUrl} with ${kept} ms. Give dead letters ` +
          'the longest MessageRetentionPeriod, 1209600 seconds.',
      ),
    ],
  }
}

function visibilityFindings({ settings, guard }: Surroundings): Findings {
  const wantedMs = guard.leaseMs + marginMs(guard.leaseMs)
  return {
    problems: [],
    warnings: when(
      settings.visibilityMs < guard.leaseMs,
      `\`visibilityMs\` is ${settings.visibilityMs}, shorter than the guard's lease of ${guard.leaseMs}: the ` +
        `message of a dead process returns while its lease still runs and costs a receive. Set it to ${wantedMs} ` +
        'or more, or shorten `leaseMs`.',
    ),
  }
}

function timeoutFindings({ api, settings: { longPollMs } }: Surroundings): Findings {
  const longestMs = api.longestPollMs() ?? longPollMs
  return {
    problems: [],
    warnings: when(
      longestMs < longPollMs,
      `The \`requestHandler\` of the client gives up before SQS answers a long poll of ${longPollMs} ms (\`longPollMs\`), ` +
        `so receives wait for ${longestMs} ms only: messages of an abandoned receive stay hidden and count as ` +
        `received. Set its \`socketTimeout\` and \`requestTimeout\` to ${longPollMs + 1_000} ms or more.`,
    ),
  }
}

/** Of the settings alone. */
export function orderFindings({ queueUrl, deadLetter }: Settings): Findings {
  return {
    problems: [],
    warnings: when(
      deadLetter === 'redrive' && isFifo(queueUrl),
      `\`deadLetter\` is 'redrive' on ${queueUrl}: a dead message holds the later messages of its group until SQS ` +
        'moves it, 5 to 30 s for each receive that maxReceiveCount has left. Name a queue in `deadLetter`, and the ' +
        'group continues at once.',
    ),
  }
}

// Unknown values are NaN, which is neither more nor less than any number.

const secondsOf = (value: string | undefined): number => Number(value) * 1_000

function maxReceivesOf({ RedrivePolicy = '' }: QueueAttributes): number {
  try {
    return Number(JSON.parse(RedrivePolicy).maxReceiveCount)
  } catch {
    return Number.NaN
  }
}
