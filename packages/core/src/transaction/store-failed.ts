import { StoreUnavailableError } from '../model/errors.ts'
import { fault, leave, type Slice } from './batch-state.ts'
import type { PartEnd } from './transaction.ts'
import { describe, giveBack } from './verdict.ts'

type Failed = Extract<PartEnd, { kind: 'failed' }>

/**
 * One connection that was lost says nothing about the store: were it to stop the consumer, an event that breaks its
 * connection in every run would. An answer such as *disk full* is the store's, and says nothing about the event.
 */
export async function storeFailed(slice: Slice, end: Failed, error: unknown): Promise<void> {
  const { engine } = slice.run
  const isLost = end.transaction.status() === 'broken'
  await giveBack(engine, end.claimed, isLost ? 'no-verdict' : 'given-back')
  const message = `The store failed while the handler ran: ${describe(error).message}`
  const unavailable = new StoreUnavailableError(message, { cause: error })
  if (!isLost) return fault(slice, end.claimed, unavailable)
  engine.options.logger.warn({ err: describe(error) }, 'a connection was lost under its handler')
  leave(slice, end.claimed, unavailable)
}
