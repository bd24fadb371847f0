import type { CollectedMessage } from '@onceward/core/ports'

/** What is stored of a message beside its payload and its key. */
export interface OutboxEnvelope
  extends Pick<CollectedMessage, 'event' | 'headers' | 'isJson' | 'sealed' | 'source' | 'type'> {}

/**
 * Stands before the JSON of the envelope of a sealed message. Relays of a version that knows nothing of it cannot read such a
 * message: they leave it where it is, and publish nothing that is sealed.
 */
const SEALED_PREFIX = 'sealed:'

export function writeOutboxEnvelope(message: CollectedMessage): Buffer {
  const { event, headers, isJson, sealed, source, type } = message
  const json = JSON.stringify({ source, type, headers, isJson, event })
  return Buffer.from(sealed === true ? SEALED_PREFIX + json : json)
}

/** @throws SyntaxError for what no version so far has written. */
export function readOutboxEnvelope(stored: Uint8Array): OutboxEnvelope {
  const text = Buffer.from(stored).toString()
  if (!text.startsWith(SEALED_PREFIX)) return JSON.parse(text)
  return { ...JSON.parse(text.slice(SEALED_PREFIX.length)), sealed: true }
}
