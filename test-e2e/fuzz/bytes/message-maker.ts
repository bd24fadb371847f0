import type { Delivery } from '@onceward/core'

/** Header names with values of any type that a client passes on. */
export type Headers = readonly (readonly [string, unknown])[]

/** How the messages of one broker come and are read back. */
export interface MessageMaker {
  /** The delivery that the adapter makes of the client's message. `name` is its queue and its identity. */
  readonly toDelivery: (name: string, body: Buffer, headers: Headers) => Delivery
  /** The client's message of a delivery, also of a stored one. */
  readonly messageOf: (delivery: Delivery) => unknown
}

export const textOf = (value: unknown): string =>
  typeof value === 'string' ? value : String(value)
