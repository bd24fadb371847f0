import type { Publish } from '../model/dead-letter.ts'
import type { GuardPort, PublisherSource } from '../model/guard-port.ts'

/** Where dead messages go. */
export type DeadLetterPlace =
  /** The same function whenever it is the same place. */
  | { readonly kind: 'publish'; readonly publish: Publish }
  /** The broker moves them: a redrive policy, or the queue's own dead-letter exchange. */
  | { readonly kind: 'broker' }
  /** The row in `failed_events` is the place; nothing is published. */
  | { readonly kind: 'record' }

/** Lets the guard's poller publish dead letters that no redelivery brings back. The answer unregisters. */
export function registerPublisher(
  port: Pick<GuardPort, 'registerPublisher'>,
  source: PublisherSource,
  place: DeadLetterPlace,
): () => void {
  if (place.kind !== 'publish') return () => undefined
  return port.registerPublisher(source, place.publish)
}
