import type { ConfigurationError } from '@onceward/core'
import type { AmqpChannel } from '../client.ts'
import { classifyError } from '../errors.ts'

/** Opens a channel for one call: a refused declaration closes its channel. */
export type OpenChannel = () => Promise<AmqpChannel>

type Answer<T> =
  | { readonly kind: 'done'; readonly value: T }
  | { readonly kind: 'failed'; readonly error: unknown }

/** Makes a call on a channel of its own, which closes if the call is refused. */
export async function onChannel<T>(
  open: OpenChannel,
  call: (channel: AmqpChannel) => Promise<T>,
): Promise<Answer<T>> {
  const channel = await open()
  channel.on('error', () => undefined)
  try {
    const value = await call(channel)
    await channel.close()
    return { kind: 'done', value }
  } catch (error) {
    return { kind: 'failed', error }
  }
}

/** @throws {@link ConfigurationError} made by `missing` if the broker has no such thing; other errors as they are. */
export async function checkThere(
  open: OpenChannel,
  check: (channel: AmqpChannel) => Promise<unknown>,
  missing: () => ConfigurationError,
): Promise<void> {
  const answer = await onChannel(open, check)
  if (answer.kind === 'done') return
  throw classifyError(answer.error).kind === 'missing' ? missing() : answer.error
}

/** Whether a queue exists. */
export async function exists(open: OpenChannel, queue: string): Promise<boolean> {
  const answer = await onChannel(open, (channel) => channel.checkQueue(queue))
  if (answer.kind === 'done') return true
  if (classifyError(answer.error).kind === 'missing') return false
  throw answer.error
}
