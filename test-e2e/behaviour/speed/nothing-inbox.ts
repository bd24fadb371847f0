import type { Inbox } from '@onceward/core'
import { memoryInbox } from '@onceward/core/memory'
import type { InboxTransaction } from '@onceward/core/ports'

const transaction: InboxTransaction<object> = {
  tx: {},
  status: () => 'open',
  revoke: () => undefined,
  commit: () => Promise.resolve({ kind: 'committed' }),
  rollback: () => Promise.resolve(),
  rollbackAndFail: () => Promise.resolve([]),
  retract: () => Promise.resolve(),
}

/** An inbox that stores nothing and finds every event new. */
export const nothingInbox: Inbox<object> = {
  open: async (registration) => {
    const session = await memoryInbox<object>({}).open(registration)
    return Object.assign(session, {
      messageCounts: undefined,
      begin: ({ claim }: Parameters<typeof session.begin>[0]) => {
        const ids =
          claim.kind === 'fresh'
            ? claim.events.map(({ id }) => id)
            : claim.kind === 'counted'
              ? claim.events.map(({ event }) => event.id)
              : []
        return Promise.resolve({ kind: 'open' as const, claimed: new Set(ids), transaction })
      },
    })
  },
}
