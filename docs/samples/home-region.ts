import { homeRegion } from '@onceward/core'

/** All regions that may be a home now: the same list everywhere, from your configuration. */
const REGIONS = ['eu-west-1', 'us-east-1'] as const

/** Sends the message to the queue of its home, whichever region has received it. */
export async function forward(
  order: { readonly accountId: string },
  send: (region: string, body: string) => Promise<void>,
): Promise<void> {
  await send(homeRegion(order.accountId, REGIONS), JSON.stringify(order))
}
