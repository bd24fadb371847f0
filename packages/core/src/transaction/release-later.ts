import type { InboxSession, Release } from '../model/inbox.ts'

/** Nobody holds runs against an event that are older than this; and memory has a bound. */
const REMEMBERED = 10_000

/**
 * Runs without a verdict whose release the store was not there to record. They are recorded once it is back, or an
 * outage would count as an attempt of every event that was under way.
 */
export interface LateReleases {
  /** Records them now or, when the store is away, later; never throws. */
  release(releases: readonly Release[]): Promise<void>
  /** Records what is left, if there is any; never throws. */
  flush(): Promise<void>
}

export function createLateReleases(
  session: Pick<InboxSession<unknown>, 'release'>,
  onLate: (error: unknown, runs: number) => void,
): LateReleases {
  let left: readonly Release[] = []
  const release = async (releases: readonly Release[]): Promise<void> => {
    const all = [...left, ...releases]
    if (all.length === 0) return
    left = []
    try {
      // Those that somebody else has taken over meanwhile carry another token: nothing changes there.
      await session.release(all)
    } catch (error) {
      left = [...all, ...left].slice(-REMEMBERED)
      if (releases.length > 0) onLate(error, left.length)
    }
  }
  return { release, flush: () => release([]) }
}
