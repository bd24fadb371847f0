import { SealError } from '@onceward/core'
import { openMessage, Sealer } from '@onceward/core/ports'
import type { RelaySettings } from './options.ts'
import { contentTypeOf, type StoredMessage } from './relay-store.ts'

/** What a relay may do with the messages of one look. */
export interface OpenedMessages {
  /** In order, as they leave. */
  readonly open: readonly StoredMessage[]
  /** They stay, and so does what is behind them in their lanes. */
  readonly closed: readonly { readonly message: StoredMessage; readonly error: SealError }[]
}

/** Opens what is sealed. A message that cannot be opened must not leave, and none of its lane may overtake it. */
export async function openedMessages(
  { runtime, seal }: Pick<RelaySettings, 'runtime' | 'seal'>,
  messages: readonly StoredMessage[],
): Promise<OpenedMessages> {
  if (messages.every(({ sealed }) => sealed === undefined)) return { open: messages, closed: [] }
  const all = await Promise.all(
    messages.map(async (message) => {
      const { sealed, ...stored } = message
      if (sealed === undefined) return { message, opened: message }
      try {
        const sealer = new Sealer(seal, { consumer: message.source, runtime })
        const { headers, payload } = await openMessage(sealer, message)
        const contentType = contentTypeOf({ headers, isJson: sealed.isJson })
        return { message, opened: { ...stored, headers, payload, contentType } }
      } catch (error) {
        if (!(error instanceof SealError)) throw error
        return { message, error }
      }
    }),
  )
  const open: StoredMessage[] = []
  const closed: { message: StoredMessage; error: SealError }[] = []
  const lanes = new Set<string>()
  for (const { error, message, opened } of all) {
    const { lane } = message
    if (error !== undefined) {
      closed.push({ message, error })
      if (lane !== undefined) lanes.add(lane)
    } else if (lane === undefined || !lanes.has(lane)) open.push(opened)
  }
  return { open, closed }
}
