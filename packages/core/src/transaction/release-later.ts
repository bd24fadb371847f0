import type { InboxSession, Release } from '../model/inbox.ts'

/** Bounds memory. The oldest releases are dropped. */
const REMEMBERED = 10_000

/**
 * Releases of counted runs that could not be recorded because the store was down. They are recorded once the store is
 * back. Otherwise an outage would count as an attempt of every event in flight.
 */
export interface LateReleases {
  /** Records the releases now, or later if the store is down. Never throws. */
  release(releases: readonly Release[]): Promise<void>
  /** Records the releases that are left. Never throws. */
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
      // If another process has taken a run over meanwhile, the token differs and the row stays unchanged.
      await session.release(all)
    } catch (error) {
      left = [...all, ...left].slice(-REMEMBERED)
      if (releases.length > 0) onLate(error, left.length)
    }
  }
  return { release, flush: () => release([]) }
}
