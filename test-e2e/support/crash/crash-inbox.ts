import type { Inbox } from '@onceward/core'
import type { BeginRequest, InboxSession } from '@onceward/core/ports'
import { withReplacedMethods } from './with-replaced-methods.ts'

/** Where a crash point hooks in: the port that every inbox implements. */
export interface InboxWatch {
  /** Called with the keys of a claim, or of the count before it. The store has not been asked yet. */
  readonly onClaim: (keys: readonly string[]) => Promise<void>
}

/** The same inbox, watched. */
export function watched<Tx>(inbox: Inbox<Tx>, watch: InboxWatch): Inbox<Tx> {
  return {
    open: async (registration) => watchedSession(await inbox.open(registration), watch),
  }
}

function watchedSession<Tx>(session: InboxSession<Tx>, watch: InboxWatch): InboxSession<Tx> {
  const replaced: Partial<InboxSession<Tx>> = {
    begin: async (request) => {
      await watch.onClaim(keysOf(request))
      return session.begin(request)
    },
    suspect: async (events, waitMs) => {
      await watch.onClaim(events.map(({ key }) => key))
      return session.suspect(events, waitMs)
    },
  }
  return withReplacedMethods(session, replaced)
}

function keysOf({ claim }: BeginRequest): readonly string[] {
  switch (claim.kind) {
    case 'fresh':
      return claim.events.map(({ key }) => key)
    case 'counted':
      return claim.events.map(({ event }) => event.key)
    case 'none':
      return []
    case 'move':
      return claim.events.map(({ key }) => key)
  }
}
