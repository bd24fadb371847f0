import { unrunError } from '../model/errors.ts'
import type { BatchHandler } from '../options/options.ts'
import { type HandlerCall, handlerOf } from './engine.ts'
import type { PendingEvent } from './pending-event.ts'

type Batch = BatchHandler<unknown, unknown>

/**
 * One handler for a batch of several types: neighbours of one type are one call of its handler, and the calls keep the order
 * of delivery. So a handler may be called several times for a batch, and no event overtakes an earlier one of another type.
 */
export function inRunsOfType(
  call: Extract<HandlerCall, { kind: 'batch' }>,
  claimed: readonly PendingEvent[],
): Batch {
  return async (events, context) => {
    for (let from = 0; from < claimed.length; ) {
      const { member } = claimed[from] as PendingEvent
      const other = claimed.findIndex((each, at) => at > from && each.member.type !== member.type)
      const to = other === -1 ? claimed.length : other
      const returned: unknown = await handlerOf(call, member)(events.slice(from, to), context)
      const error = unrunError(returned)
      if (error !== undefined) throw error
      from = to
    }
  }
}
