import type { Confirmation, Destination } from '@onceward/core'
import { createSemaphore, withTimeout } from '@onceward/core/adapter'
import type { Runtime } from '@onceward/core/ports'
import type { StoredMessage } from './relay-store.ts'

/** What became of the messages of one look. Those that are in neither list are published again. */
export interface Published {
  readonly confirmed: readonly StoredMessage[]
  readonly refused: readonly { readonly message: StoredMessage; readonly error: unknown }[]
  /** Why the destination is down. */
  readonly failure?: { readonly error: unknown } | undefined
}

export interface Publishing {
  readonly destination: Destination
  readonly runtime: Runtime
  /** Calls at the same time. */
  readonly slots: number
  /** Longest call, ms. */
  readonly callMs: number
  /** Whether the next call may begin: the lease is valid, and nothing is drained. */
  readonly mayGoOn: () => boolean
}

/** Publishes messages in waves, so that no message overtakes one of its lane, and none follows one that failed. */
export async function publish(
  { callMs, destination, mayGoOn, runtime, slots }: Publishing,
  messages: readonly StoredMessage[],
): Promise<Published> {
  const confirmed: StoredMessage[] = []
  const refused: { message: StoredMessage; error: unknown }[] = []
  let failure: { readonly error: unknown } | undefined
  const stopped = new Set<string>()
  const semaphore = createSemaphore(slots)

  const call = async (some: readonly StoredMessage[]): Promise<void> => {
    const release = await semaphore.acquire()
    const abort = new AbortController()
    try {
      if (failure !== undefined || !mayGoOn()) return
      const answers: readonly Confirmation[] = await withTimeout(
        runtime,
        destination.publish(some, abort.signal),
        { call: 'publishing', budgetMs: callMs },
      )
      for (const [index, message] of some.entries()) {
        const answer = answers[index]
        if (answer === undefined) confirmed.push(message)
        else {
          if ('refused' in answer) refused.push({ message, error: answer.refused })
          else failure ??= { error: answer.unknown }
          if (message.lane !== undefined) stopped.add(message.lane)
        }
      }
    } catch (error) {
      failure ??= { error }
      abort.abort(error)
    } finally {
      release?.()
    }
  }

  for (let rest = messages; rest.length > 0 && failure === undefined && mayGoOn(); ) {
    const { later, now } = wave(destination, rest, stopped)
    await Promise.all(chunks(destination, now).map(call))
    rest = later
  }
  return { confirmed, refused, failure }
}

function wave(
  { batch, keepsOrder }: Destination,
  messages: readonly StoredMessage[],
  stopped: ReadonlySet<string>,
): { readonly now: readonly StoredMessage[]; readonly later: readonly StoredMessage[] } {
  const open = messages.filter(({ lane }) => lane === undefined || !stopped.has(lane))
  // One call at a time, because two of them may have messages of one key.
  if (keepsOrder === true) return { now: open.slice(0, batch), later: open.slice(batch) }
  const lanes = new Set<string>()
  const now: StoredMessage[] = []
  const later: StoredMessage[] = []
  for (const message of open) {
    const { lane } = message
    if (lane === undefined || !lanes.has(lane)) now.push(message)
    else later.push(message)
    if (lane !== undefined) lanes.add(lane)
  }
  return { now, later }
}

function chunks(
  { batch }: Destination,
  messages: readonly StoredMessage[],
): readonly (readonly StoredMessage[])[] {
  const all: StoredMessage[][] = []
  for (let at = 0; at < messages.length; at += batch) all.push(messages.slice(at, at + batch))
  return all
}
