import type { Settlement } from '@onceward/core'
import {
  type GuardPort,
  messageOf,
  type Pace,
  type Settle,
  SettleReport,
  settleBy,
  waitMsOf,
} from '@onceward/core/adapter'
import { delayedError, type JobLike, unrecoverableError } from './client.ts'

/** How a run of the processor ends: BullMQ acts on what it returns or throws. */
export type Answer = { readonly returns: unknown } | { readonly throws: Error }

/** A job in hand. */
export interface Received {
  readonly job: JobLike
  /** Of the worker's lock on the job. */
  readonly token: string | undefined
}

export interface SettleContext {
  readonly port: Pick<GuardPort, 'runtime' | 'settings'>
  readonly report: SettleReport<Received>
  /** Aborted: nothing waits any more. */
  readonly stop: AbortSignal
}

export const createReport = ({ logger }: Pick<GuardPort, 'logger'>): SettleReport<Received> =>
  new SettleReport({
    logger,
    fieldsOf: ({ job }) => ({ queue: job.queueName, jobId: job.id }),
    describe: messageOf,
  })

/**
 * While a store is down each job keeps its slot of the worker for so long, ms: the queue is not moved through its delayed
 * jobs, and `worker.close()`, which waits for running jobs, is not held up for longer.
 */
const MOST_HELD_MS = 5_000
/** Doublings of the wait of an event that runs elsewhere. */
const MOST_ROUNDS = 10

export const settle: Settle<SettleContext, Received, Answer> = settleBy(
  {
    ack: (_context, _received, { result }) => ({ returns: result }),
    defer: async (context, received, settlement) => {
      const waitMs = waitMsOf(settlement, paceOf(context, received))
      if (settlement.reason !== 'store-down') return later(received, waitMs)
      await held(context, Math.min(waitMs, MOST_HELD_MS))
      return later(received, 0)
    },
    // The record is stored, and the job is in the failed set, where BullMQ's own tools show it.
    'dead-letter': (_context, _received, settlement) => ({
      throws: unrecoverableError(textOf(settlement), settlement.error),
    }),
    abandon: (context, received, settlement) =>
      later(received, waitMsOf(settlement, paceOf(context, received))),
  },
  ({ report }, received, { settlement, error }) => {
    report.failed(received, settlement.kind, error)
    // Nothing is said of the job: it is another worker's, or it becomes one's when its lock is over.
    return { throws: delayedError() }
  },
)

/** Gives the job back. BullMQ counts no attempt for it. */
async function later({ job, token }: Received, waitMs: number): Promise<Answer> {
  await job.moveToDelayed(Date.now() + waitMs, token)
  return { throws: delayedError() }
}

function paceOf({ port }: SettleContext, { job }: Received): Pace {
  const { runtime, settings } = port
  const rounds = Math.min(Math.max(0, (job.attemptsStarted ?? 1) - 1), MOST_ROUNDS)
  return { runtime, rounds, busiestMs: settings.leaseMs }
}

function held({ port: { runtime }, stop }: SettleContext, ms: number): Promise<void> {
  return new Promise((resolve) => {
    const end = (): void => {
      cancel()
      stop.removeEventListener('abort', end)
      resolve()
    }
    const cancel = runtime.setTimer(end, ms, { keepAlive: true })
    stop.addEventListener('abort', end, { once: true })
    if (stop.aborted) end()
  })
}

function textOf({ error, reason }: Extract<Settlement, { kind: 'dead-letter' }>): string {
  const advice = 'npx onceward dead-letters shows and replays it'
  return error === undefined
    ? `dead (${reason}): ${advice}`
    : `dead (${reason}): ${messageOf(error)}; ${advice}`
}
