/** What is sealed. `payload` is that of a message of the outbox, and `headers` may be of it too. */
export type SealedField = 'body' | 'headers' | 'envelope' | 'result' | 'payload'

/** Whose bytes they are. Bind them to what you seal (as additional data), so that no value fits in another place. */
export interface SealContext {
  readonly consumer: string
  readonly field: SealedField
}

/**
 * The option `seal`: your encryption of what is stored of messages.
 *
 * A call that throws or gives no answer within 10 seconds has failed. Then nothing is stored in plain: the event is tried again,
 * as when the store is down. What cannot be opened stays as it is.
 */
export interface Seal {
  /** Answers the bytes to store. Put the id of the key into them, so that you can change the key. */
  seal(bytes: Uint8Array, context: SealContext): Uint8Array | PromiseLike<Uint8Array>
  /** The inverse of `seal`, for all keys that were in use. Throws for bytes that it cannot open. */
  open(bytes: Uint8Array, context: SealContext): Uint8Array | PromiseLike<Uint8Array>
}
