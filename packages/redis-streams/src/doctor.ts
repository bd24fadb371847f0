import type { Logger } from '@onceward/core'
import { type Findings, type GuardSettings, reportFindings, when } from '@onceward/core/adapter'
import type { StreamApi, StreamFacts } from './client.ts'
import { unfitError } from './errors.ts'
import type { Settings } from './options.ts'

export interface Surroundings {
  readonly api: Pick<StreamApi, 'facts'>
  readonly settings: Settings
  readonly guard: GuardSettings
  readonly logger: Logger
  /** Wall clock, ms. */
  readonly nowMs: number
  /** This process has had the group before, so Redis or somebody else has removed it. */
  readonly hadGroup: boolean
}

const LEAST_VERSION = 7

/**
 * Checks the streams and their server before the first receive, and before a missing group is created. Changes nothing.
 *
 * @throws {@link ConfigurationError} when the settings cannot work. Other errors are the client's and may pass.
 */
export async function examine(surroundings: Surroundings): Promise<void> {
  const { api, settings, logger } = surroundings
  const found: Findings[] = []
  for (const stream of settings.streams) {
    const facts = await api.facts(stream).catch((error: unknown) => {
      throw unfitError(error, stream) ?? error
    })
    if (found.length === 0) found.push(serverFindings(facts), idleFindings(surroundings))
    found.push(streamFindings(stream, facts, surroundings))
  }
  reportFindings(found, logger, { queue: settings.queue, group: settings.group })
}

export function serverFindings({ info, fsync }: Pick<StreamFacts, 'info' | 'fsync'>): Findings {
  if (info === undefined) {
    const finding =
      'Whether Redis keeps the stream could not be read. Allow INFO to this user: ACL SETUSER <user> +info.'
    return { problems: [], warnings: [finding] }
  }
  const version = info.get('redis_version') ?? ''
  const isMemoryOnly = info.get('aof_enabled') === '0'
  const policy = info.get('maxmemory_policy') ?? ''
  return {
    problems: when(
      Number.parseInt(version, 10) < LEAST_VERSION,
      `Expected Redis ${LEAST_VERSION}.0 or newer, got ${version}: older ones do not tell which pending entries were deleted. Update the server.`,
    ),
    warnings: [
      ...when(
        isMemoryOnly,
        'Redis keeps the stream in memory alone, or in snapshots: a restart loses entries that were not processed, and ' +
          `has ${info.get('connected_slaves') ?? '0'} replica(s) to take over. Set appendonly yes.`,
      ),
      ...when(
        !isMemoryOnly && fsync === 'no',
        'Redis leaves it to the system when its log reaches the disk (appendfsync no): a crash of the machine may lose ' +
          'many seconds of entries. Set appendfsync everysec, or always.',
      ),
      ...when(
        policy.startsWith('allkeys') && info.get('maxmemory') !== '0',
        `Redis may evict the whole stream when its memory is full (${policy}). Set maxmemory-policy noeviction.`,
      ),
    ],
  }
}

export function streamFindings(
  stream: string,
  facts: Omit<StreamFacts, 'info' | 'fsync'>,
  surroundings: Omit<Surroundings, 'api' | 'logger'>,
): Findings {
  const { settings, guard, nowMs } = surroundings
  const { group, keepEntries } = settings
  const names = facts.groups.map((each) => String(each.get('name')))
  const others = names.filter((name) => name !== group)
  const isMissing = !names.includes(group)
  const { trimmed, oldest } = lossesOf(facts, group)
  return {
    problems: [
      ...when(
        others.length > 0 && !keepEntries,
        `${stream} has other groups (${others.join(', ')}), and an entry is deleted with its ack: they would never get it. ` +
          'Set `keepEntries: true` for each of its consumers, and trim the stream with XADD … MINID or XTRIM.',
      ),
      ...(isMissing ? beginningProblems(stream, facts, surroundings) : []),
    ],
    warnings: [
      ...when(
        isMissing,
        `${stream} has no group ${group}. A consumer creates it, at the first entry of the stream. If Redis lost the group, ` +
          'it may have lost entries too.',
      ),
      ...when(
        trimmed > 0,
        `${trimmed} entries of ${stream} were trimmed before the group ${group} got them: their events are lost, and the ` +
          'lag is unknown. Let XADD trim by MINID of what is settled, or raise its MAXLEN.',
      ),
      ...when(
        isBefore(oldest, firstOf(facts)),
        `Pending entries of ${stream} were deleted or trimmed before they were settled: they are lost, unless their runs ` +
          'are committed. Let XADD trim by MINID of what is settled, or raise its MAXLEN.',
      ),
      ...when(
        timeOf(oldest) < nowMs - guard.dedupWindowMs,
        `An entry of ${stream} is pending for longer than the guard's \`dedupWindowMs\` of ${guard.dedupWindowMs}: if it was ` +
          'processed then, that was forgotten, and it is processed twice. Raise `dedupWindowMs`, or look at XPENDING.',
      ),
    ],
  }
}

/** Why a group that is missing must not be created at the first entry. */
function beginningProblems(
  stream: string,
  facts: Pick<StreamFacts, 'stream'>,
  { settings, guard, nowMs, hadGroup }: Omit<Surroundings, 'api' | 'logger'>,
): readonly string[] {
  const { group, isKeepingSaid, keepEntries } = settings
  const first = firstOf(facts)
  return [
    ...when(
      first !== undefined && !isKeepingSaid && !hadGroup,
      `${stream} has entries and no group ${group}. A consumer deletes each entry with its ack, also for those who read the ` +
        'stream with XREAD. Set `keepEntries: false` if nobody else reads it. Otherwise set `keepEntries: true`, and trim ' +
        'the stream with XADD … MINID or XTRIM.',
    ),
    ...when(
      keepEntries && timeOf(first) < nowMs - guard.dedupWindowMs,
      `${stream} has no group ${group}, and \`keepEntries\` keeps entries there that are older than the guard's ` +
        '`dedupWindowMs`: created at the first entry, the group would process events again that were forgotten. Create it ' +
        `where it should begin: XGROUP CREATE ${stream} ${group} <id>, with 0 for all entries and $ for new ones only.`,
    ),
  ]
}

interface Losses {
  /** Entries that were trimmed before the group got them, as far as is known. */
  readonly trimmed: number
  readonly oldest: string | undefined
}

/** More entries are to be delivered than there are: the lag that the server tells is wrong then. */
function lossesOf(
  { stream, groups, oldestPending: oldest }: Omit<StreamFacts, 'info' | 'fsync'>,
  group: string,
): Losses {
  const own = groups.find((each) => each.get('name') === group)
  const waiting = Number(stream?.get('entries-added')) - numberOf(own?.get('entries-read'))
  const trimmed = waiting - Number(stream?.get('length'))
  return { trimmed: Number.isNaN(trimmed) ? 0 : Math.max(0, trimmed), oldest }
}

/** Redis does not know how many entries a group read that began in the middle: `null`, which is no 0. */
const numberOf = (value: unknown): number => (typeof value === 'number' ? value : Number.NaN)

function firstOf({ stream }: Pick<StreamFacts, 'stream'>): string | undefined {
  const first = stream?.get('first-entry')
  return Array.isArray(first) ? String(first[0]) : undefined
}

/** Compares two ids. Unknown ones are before nothing. */
function isBefore(id: string | undefined, other: string | undefined): boolean {
  if (id === undefined || other === undefined) return false
  const [ms, n] = partsOf(id)
  const [otherMs, otherN] = partsOf(other)
  return ms < otherMs || (ms === otherMs && n < otherN)
}

function partsOf(id: string): readonly [bigint, bigint] {
  const [ms = '0', n = '0'] = id.split('-')
  return [BigInt(ms), BigInt(n)]
}

/** Milliseconds; NaN, which is neither more nor less than any number, if there is no id. */
const timeOf = (id: string | undefined): number => Number(id?.split('-')[0])

function idleFindings({ settings, guard }: Surroundings): Findings {
  const { claimIdleMs } = settings
  return {
    problems: [],
    warnings: when(
      claimIdleMs < guard.leaseMs,
      `\`claimIdleMs\` is ${claimIdleMs}, shorter than the guard's lease of ${guard.leaseMs}: the entry of a dead process ` +
        'returns while its lease still runs. Leave `claimIdleMs` out, or shorten `leaseMs`.',
    ),
  }
}
