import { createGuard, type Guard, type Handler, type InboxGuardOptions } from '@onceward/core'
import { type MemoryInbox, memoryInbox } from '@onceward/core/memory'

/** What these guards take. */
export interface Order {
  readonly key: string
}

type Options = Partial<InboxGuardOptions<Order, undefined, unknown>>

const ignore = (): void => undefined
const silent = { debug: ignore, info: ignore, warn: ignore, error: ignore }

/** A real guard on an inbox in memory, whose failures are due again at once. */
export function guardOf(
  handler: Handler<Order>,
  options: Options = {},
  inbox: MemoryInbox<undefined> = memoryInbox(),
): Guard {
  return createGuard<undefined, unknown, Order>(
    {
      consumer: 'billing',
      inbox,
      logger: silent,
      leaseMs: 1_000,
      retry: { baseMs: 0 },
      ...options,
    },
    handler,
  )
}
