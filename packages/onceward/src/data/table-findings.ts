import { quotedSchema } from '@onceward/postgres/operator'
import { counted, duration, instant } from '../render/units.ts'
import { type Finding, when } from './finding.ts'
import type { OutboxStatus } from './outbox.ts'
import type { ConsumerStatus, Status, TableStatus } from './status.ts'

/** The longest time after which a queue can deliver a message again, by consumer; `''` is every other consumer. */
export type Horizons = ReadonlyMap<string, number>

const HOUR_MS = 3_600_000
const DAY_MS = 24 * HOUR_MS
const OVERDUE_MS = 300_000
/** A guard that runs registers within an hour. */
const SILENT_MS = 2 * HOUR_MS

export function tableFindings(
  status: Status,
  horizons: Horizons,
  schema: string = DEFAULT_SCHEMA,
): readonly Finding[] {
  const findings = [
    ...sweepFindings(status),
    ...status.tables.flatMap((table) => vacuumFindings(table, schema)),
    ...status.consumers.flatMap((consumer) => consumerFindings(consumer, status, horizons)),
    ...horizonFindings(status, horizons),
    ...(status.outbox ?? []).flatMap((each) => outboxFindings(each, status)),
  ]
  return findings.map((each) => ({ ...each, remedy: withSchema(each.remedy, schema) }))
}

const DEFAULT_SCHEMA = 'onceward'

/** A command of a remedy must read the tables that were examined, and not those of the default schema. */
function withSchema(remedy: string, schema: string): string {
  if (schema === DEFAULT_SCHEMA) return remedy
  const shown = /^\w+$/.test(schema) ? schema : `'${schema.replaceAll("'", "'\\''")}'`
  return remedy.replace(/`npx onceward [^`]*/, (command) => `${command} --schema ${shown}`)
}

function sweepFindings({ consumers, nowMs, sweptAtMs }: Status): readonly Finding[] {
  const isRunning = consumers.some(({ seenAtMs }) => nowMs - seenAtMs < SILENT_MS)
  return [
    ...when(isRunning && sweptAtMs !== null && nowMs - sweptAtMs > DAY_MS, {
      ...{ severity: 'warning', about: 'tables' },
      finding: `Nothing has been swept for ${duration(nowMs - (sweptAtMs ?? nowMs))}, although guards run.`,
      remedy:
        'Look for the error `nothing is swept` in the log of the guards. If the clock of the database is right, run `npx onceward sweep --trust-clock`.',
    }),
    ...when(sweptAtMs !== null && sweptAtMs - nowMs > HOUR_MS, {
      ...{ severity: 'error', about: 'tables' },
      finding: 'The last sweep is in the future of the clock of the database, so nothing is swept.',
      remedy: 'Set the clock right, then run `npx onceward sweep --trust-clock`.',
    }),
  ]
}

const MANY_ROWS = 100_000

function vacuumFindings(
  { deadRows, name, rows, vacuumedAtMs }: TableStatus,
  schema: string,
): readonly Finding[] {
  return when(deadRows > MANY_ROWS && deadRows > rows / 2, {
    ...{ severity: 'warning', about: 'tables' },
    finding: `The table ${name} has ${counted(deadRows, 'dead row')} beside ${counted(rows, 'row')}, last vacuumed ${vacuumedAtMs === null ? 'never' : new Date(vacuumedAtMs).toISOString()}.`,
    remedy: `Run \`vacuum ${quotedSchema(schema)}.${name}\`, and lower autovacuum_vacuum_scale_factor of this table.`,
  })
}

/** A misspelt name would be compared with nothing, and the doctor would find nothing. */
function horizonFindings({ consumers }: Status, horizons: Horizons): readonly Finding[] {
  const known = new Set(['', ...consumers.map(({ name }) => name)])
  return [...horizons.keys()]
    .filter((name) => !known.has(name))
    .map(
      (name): Finding => ({
        ...{ severity: 'error', about: 'consumers' },
        finding: `No guard of the consumer ${name} has registered in these tables, so its horizon was not compared.`,
        remedy: 'Correct the name in `--horizon`, or start the consumer once.',
      }),
    )
}

function consumerFindings(
  consumer: ConsumerStatus,
  { nowMs }: Status,
  horizons: Horizons,
): readonly Finding[] {
  const { name, dedupWindowMs, overdueMs, unpublishedLate } = consumer
  const about = 'consumers'
  const horizonMs = horizons.get(name) ?? horizons.get('') ?? 0
  const late = lettersOf(consumer, true)
  const dead = lettersOf(consumer, false)
  const silence = silenceOf(consumer, nowMs)
  return [
    ...when(horizonMs > dedupWindowMs, {
      ...{ severity: 'error', about },
      finding: `The queue of ${name} can deliver a message again for ${duration(horizonMs)}, but its events are forgotten after ${duration(dedupWindowMs)}: a late copy would run twice.`,
      remedy: `Raise \`dedupWindowMs\` of the guard to ${horizonMs} or more, or lower the retention of the queue.`,
      consumer: name,
    }),
    ...silence,
    ...when(silence.length === 0 && overdueMs > OVERDUE_MS, {
      ...{ severity: 'warning', about },
      finding: `Parked events of ${name} have been due for ${duration(overdueMs)}.`,
      remedy: `Check that guards of ${name} run with an inbox and are not paused: \`health()\` says why.`,
      ...{ consumer: name, see: 'waiting' },
    }),
    ...when(unpublishedLate > 0, {
      ...{ severity: 'warning', about },
      finding: `${counted(unpublishedLate, 'dead letter')} of ${name} could not be published for 15 minutes.`,
      remedy: `Check the dead-letter queue or topic of ${name}. They are stored, and published when it is back.`,
      ...{ consumer: name, see: 'dead-letters' },
    }),
    ...when(late.count > 0, {
      ...{ severity: 'error', about },
      finding: `${counted(late.count, 'event')} of ${name} ${late.count === 1 ? 'is' : 'are'} done without a statement of the handler, which came after the handler had returned, the oldest for ${duration(nowMs - late.oldestMs)}.`,
      remedy: `Await every call in the handler of ${name}. Then look at \`npx onceward dead-letters list --consumer ${name} --reason late-statement\`, and rerun or discard them.`,
      ...{ consumer: name, see: 'dead-letters' },
    }),
    ...when(dead.count > 0, {
      ...{ severity: 'warning', about },
      finding: `${counted(dead.count, 'dead letter')} of ${name} ${dead.count === 1 ? 'waits' : 'wait'} for an operator, the oldest for ${duration(nowMs - dead.oldestMs)}.`,
      remedy: `Run \`npx onceward dead-letters list --consumer ${name}\`, then replay or discard them.`,
      ...{ consumer: name, see: 'dead-letters' },
    }),
  ]
}

/** @param late - Those of events that are done without a statement of their handler, or the others. */
function lettersOf({ dead }: ConsumerStatus, late: boolean): { count: number; oldestMs: number } {
  const some = dead.filter(({ reason }) => (reason === 'late-statement') === late)
  return {
    count: some.reduce((sum, { count }) => sum + count, 0),
    oldestMs: Math.min(...some.map((each) => each.oldestMs)),
  }
}

const LATE_MS = 900_000
/** A restart takes less time than this. */
const RESTART_MS = 120_000

function outboxFindings(
  { dead, destination, isServed, oldestWaitingMs, refused, waiting }: OutboxStatus,
  { nowMs }: Status,
): readonly Finding[] {
  const shared = { severity: 'warning', about: 'tables', see: 'outbox' } as const
  const waitsMs = nowMs - (oldestWaitingMs ?? nowMs)
  const wait = `${counted(waiting + refused, 'message')} of the outbox to ${destination} ${waiting + refused === 1 ? 'waits' : 'wait'}`
  return [
    ...when(!isServed && waitsMs > RESTART_MS, {
      ...shared,
      finding: `${wait}, and no relay that runs has this destination.`,
      remedy: `Start a relay that has the destination ${destination}. If the name is wrong, correct it where \`outbox.send\` gives it as \`to\`, and start a relay that has the wrong name too until these messages have left.`,
    }),
    ...when(isServed && waitsMs > LATE_MS, {
      ...shared,
      finding: `${wait}, the oldest for ${duration(waitsMs)}.`,
      remedy: `Look at the \`health()\` and the log of the relays that have the destination ${destination}: they say why messages wait.`,
    }),
    ...when(dead > 0, {
      ...shared,
      finding: `${counted(dead, 'message')} of the outbox to ${destination} ${dead === 1 ? 'is' : 'are'} dead.`,
      remedy: `Run \`npx onceward outbox list\`, then replay or discard them.`,
    }),
  ]
}

const waitsOf = ({ inHand, parked, waiting }: ConsumerStatus): number => waiting + parked + inHand

/**
 * Since when the consumer has had no worker, if that is to be reported: by the heartbeats, or by the registration where
 * none are sent. A consumer that was taken away is silent for good, and is reported until its events are forgotten or as
 * long as some of them wait.
 */
export function silentSinceMs(consumer: ConsumerStatus, nowMs: number): number | undefined {
  const { dedupWindowMs, noWorkerSinceMs, seenAtMs } = consumer
  const waits = waitsOf(consumer)
  if (noWorkerSinceMs === null) {
    return nowMs - seenAtMs > SILENT_MS && waits > 0 ? seenAtMs : undefined
  }
  const silentMs = nowMs - noWorkerSinceMs
  const isReported = silentMs > RESTART_MS && (waits > 0 || silentMs < dedupWindowMs)
  return isReported ? noWorkerSinceMs : undefined
}

function silenceOf(consumer: ConsumerStatus, nowMs: number): readonly Finding[] {
  const { name } = consumer
  const sinceMs = silentSinceMs(consumer, nowMs)
  if (sinceMs === undefined) return []
  const waits = waitsOf(consumer)
  const waiting =
    waits === 0 ? '' : ` ${counted(waits, 'event')} ${waits === 1 ? 'waits' : 'wait'}.`
  return [
    {
      ...{ severity: 'warning', about: 'consumers' },
      finding: `No worker of ${name} since ${instant(sinceMs)} (${duration(nowMs - sinceMs)}).${waiting}`,
      remedy:
        waits === 0
          ? `Start the consumer ${name}. If it was taken away, run \`npx onceward remove ${name}\`.`
          : `Start the consumer ${name}. If it was taken away and these events are no longer wanted, run \`npx onceward remove ${name} --leave-events\`.`,
      ...{ consumer: name, ...(waits > 0 && { see: 'waiting' }) },
    },
  ]
}
