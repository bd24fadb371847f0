import type { ModuleRef } from '@nestjs/core'
import { ConfigurationError } from '@onceward/core'
import { loadFor } from './package-loader.ts'

/** What is used of a `DateTime` of luxon. */
interface Instant {
  toMillis(): number
  minus(duration: { readonly milliseconds: number }): Instant
}

/** What is used of a `CronJob`. */
export interface CronJob {
  readonly cronTime: {
    readonly source: unknown
    /** It fires once, at `source`. */
    readonly realDate: boolean
    readonly timeZone?: string | undefined
    readonly utcOffset?: number | undefined
    getNextDateFrom(start: Instant): Instant
  }
  nextDate(): Instant
}

/** What `@Cron` was given. */
export interface CronOptions {
  readonly cronTime: unknown
  readonly name?: string | undefined
  readonly timeZone?: string | undefined
  readonly utcOffset?: number | undefined
}

/** `@Cron` of every version of @nestjs/schedule stores under it. */
const CRON = 'SCHEDULE_CRON_OPTIONS'

export const cronOptionsOf = (method: object): CronOptions | undefined =>
  Reflect.getMetadata(CRON, method) as CronOptions | undefined

/**
 * Finds the job of a method, whose schedule is that by which it fires.
 *
 * @throws {@link ConfigurationError} if there is none.
 */
export async function findJob(moduleRef: ModuleRef, options: CronOptions): Promise<CronJob> {
  const load = async () => import('@nestjs/schedule')
  const { SchedulerRegistry } = await loadFor('@OnceAt', '@nestjs/schedule', load)
  const jobs = moduleRef.get(SchedulerRegistry, { strict: false }).getCronJobs()
  const all: ReadonlyMap<string, unknown> = jobs
  const { name } = options
  const found = name === undefined ? sameSchedule([...all.values()], options) : all.get(name)
  if (found !== undefined) return found as CronJob
  throw new ConfigurationError(
    `@OnceAt finds no cron job for ${name ?? String(options.cronTime)}: import ScheduleModule.forRoot(), and give @Cron a \`name\` if its time is changed later.`,
  )
}

/** A job without a name has another one in each process. Jobs of the same schedule have the same ticks. */
function sameSchedule(jobs: readonly unknown[], given: CronOptions): unknown {
  const zoneOf = ({ timeZone, utcOffset }: Pick<CronOptions, 'timeZone' | 'utcOffset'>): string => {
    const system = Intl.DateTimeFormat().resolvedOptions().timeZone
    return `${utcOffset ?? ''} ${timeZone ?? (utcOffset == null ? system : '')}`
  }
  return jobs.find((job) => {
    const { cronTime } = job as CronJob
    return cronTime.source === given.cronTime && zoneOf(cronTime) === zoneOf(given)
  })
}

const SECOND_MS = 1_000
/** As `cron` looks ahead. */
const LONGEST_MS = 8 * 366 * 24 * 3_600 * SECOND_MS

/**
 * The last scheduled tick up to now. It is the same in all processes that fire for it, however late each of them is and
 * whatever their clocks say, because a process fires when its own clock has reached the tick.
 *
 * @returns Undefined if there was none in the last eight years.
 */
export function lastTickMs(job: CronJob, nowMs: number): number | undefined {
  const { cronTime } = job
  if (cronTime.realDate) {
    const atMs = (cronTime.source as Instant).toMillis()
    return atMs > nowMs ? undefined : atMs
  }
  // Whose zone is that of the schedule.
  const next = job.nextDate()
  const after = (ms: number): number =>
    cronTime.getNextDateFrom(next.minus({ milliseconds: next.toMillis() - ms })).toMillis()

  // Ticks are whole seconds. A process that fires in time needs one look.
  const now = Math.floor(nowMs / SECOND_MS) * SECOND_MS
  let from = now - SECOND_MS
  for (; after(from) > now; from -= now - from) if (now - from > LONGEST_MS) return undefined
  // A tick comes after `from`, and none after `to`.
  for (let to = now; to - from > SECOND_MS; ) {
    const middle = from + Math.floor((to - from) / 2 / SECOND_MS) * SECOND_MS
    if (after(middle) <= now) from = middle
    else to = middle
  }
  return after(from)
}
