import type { MaybeAsync } from '../concurrency/maybe-async.ts'
import type { GuardPort } from '../model/guard-port.ts'
import type { Logger } from '../model/logger.ts'
import type { Runtime } from '../model/runtime.ts'
import type { Settlement } from '../model/settlement.ts'
import type { Settling } from './consumption.ts'
import type { DeadLetterPlace } from './dead-letter-place.ts'

const SOON_MS = 1_000

/** What tells how long a message waits before it runs again. */
export interface Pace {
  readonly runtime: Pick<Runtime, 'now' | 'random'>
  /** How often it has waited before. */
  readonly rounds: number
  /** Longest wait for an event that runs elsewhere, if the guard does not ask for more. */
  readonly busiestMs: number
}

/** The least wait for an event that runs elsewhere: a second, and twice as long each time. */
export const busyMs = ({ rounds, busiestMs }: Pick<Pace, 'rounds' | 'busiestMs'>): number =>
  Math.min(SOON_MS * 2 ** rounds, busiestMs)

/** How long an event waits that runs elsewhere; without `waitMs`, one of which nothing is known. */
export function longerMs(pace: Pace, waitMs: number = SOON_MS): number {
  return Math.max(waitMs, busyMs(pace)) * (1 + pace.runtime.random() * 0.2)
}

/** How long a message waits that stays with its consumer, ms. Loops of onceward and those of frameworks wait for as long. */
export function waitMsOf(
  settlement: Extract<Settlement, { kind: 'defer' | 'abandon' }>,
  pace: Pace,
): number {
  // The lease was lost, the deadline passed, or the commit is unknown: the next claim of this consumer finds out.
  if (settlement.kind === 'abandon') return longerMs(pace)
  const dueMs = Math.max(0, settlement.until - pace.runtime.now())
  switch (settlement.reason) {
    case 'failed':
      return dueMs
    case 'store-down':
      return dueMs + pace.runtime.random() * SOON_MS
    case 'in-progress':
    case 'not-due':
      return longerMs(pace, dueMs)
  }
}

/** Bounds of a wait, ms. */
export interface WaitRange {
  readonly leastMs: number
  readonly mostMs: number
}

/** When a dead message, or one whose dead letter was refused, is tried again: soon, but not in a hot loop. */
export const laterMs = (
  { random }: Pick<Runtime, 'random'>,
  { leastMs, mostMs }: WaitRange,
): number => leastMs + random() * (mostMs - leastMs)

export interface SettleReportOptions<Each> {
  readonly logger: Logger
  /** Names the message in the log, without its key and payload. */
  readonly fieldsOf: (each: Each) => Readonly<Record<string, unknown>>
  readonly describe: (error: unknown) => string
}

/** Tells what could not be settled, in the log and in `health()`. */
export class SettleReport<Each> implements Settling {
  settleFailures = 0
  readonly #options: SettleReportOptions<Each>

  constructor(options: SettleReportOptions<Each>) {
    this.#options = options
  }

  /** The broker does not have the settlement. */
  refused(each: Each, why: { readonly verb: string; readonly reason: string }): void {
    this.settleFailures += 1
    const { logger, fieldsOf } = this.#options
    const fields = { ...fieldsOf(each), ...why }
    logger.warn(fields, 'a settlement was not carried out; the message will return')
  }

  /** The call that carries out the settlement failed. */
  failed(each: Each, verb: string, error: unknown): void {
    this.refused(each, { verb, reason: this.#options.describe(error) })
  }

  notPublished(each: Each, error: unknown): void {
    const { logger, fieldsOf, describe } = this.#options
    // Errors of clients may have the payload in other fields than their text.
    const fields = { ...fieldsOf(each), reason: describe(error) }
    logger.error(fields, 'a dead letter could not be published; it will be tried again')
  }
}

export interface DeadLetterSteps<Each, Answer> {
  readonly port: Pick<GuardPort, 'publishDeadLetter'>
  readonly place: DeadLetterPlace
  readonly report: Pick<SettleReport<Each>, 'notPublished'>
  /** Whether the step that published the dead letter has settled its message, whatever became of its record. */
  readonly isOver?: () => boolean
  /** The dead letter is where it belongs, or has no place but its record: settles the message. */
  readonly over: () => MaybeAsync<Answer>
  /** @param wasTried - False if another process is publishing it, or its place is known to be down. */
  readonly again: (wasTried: boolean) => MaybeAsync<Answer>
}

/** Publishes the dead letter and then settles the message. A crash between the two publishes it again. */
export async function settleDeadLetter<Each, Answer>(
  each: Each,
  settlement: Settlement,
  { port, place, report, isOver, over, again }: DeadLetterSteps<Each, Answer>,
): Promise<Answer> {
  if (place.kind !== 'publish') return over()
  const answer = await port.publishDeadLetter(settlement, place.publish)
  if (answer.kind !== 'retry' || isOver?.()) return over()
  if (answer.error !== undefined) report.notPublished(each, answer.error)
  return again(answer.error !== undefined)
}
