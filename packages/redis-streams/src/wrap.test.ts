import { handMadeGuard } from '@onceward/testing/adapter'
import { expect, test } from 'vitest'
import { SCRIPTS } from './clients/scripts.ts'
import { wrapStream } from './wrap.ts'

/** A client of a Redis that has so many parked entries, and the counts of the claims. */
function clientWith(parked: number) {
  const claims: number[] = []
  let left = parked
  const claim = (count: number): unknown[] => {
    claims.push(count)
    const taken = Math.min(count, left)
    left -= taken
    const fields = ['payload', '{}'].map((each) => Buffer.from(each))
    return Array.from({ length: taken }, (_, n) => [Buffer.from(`${left + n + 1}-0`), fields, 2])
  }
  const client = {
    callBuffer: async (...[, sha, ...args]: string[]): Promise<unknown> => {
      if (sha === SCRIPTS.neighbours.sha) return [[], [], null]
      return sha === SCRIPTS.claim.sha ? [Buffer.from('0-0'), claim(Number(args[6])), []] : []
    },
    duplicate: () => client,
  }
  return { client: client as never, claims }
}

// Red when a look goes on while every entry that it claims is parked again: it would never end.
test('a look goes on as long as it brings entries, and takes one step while the store is down', async () => {
  const { client, claims } = clientWith(35)
  const { guard, clock, state } = handMadeGuard()
  const later = () => (clock.nowMs + 60_000) as never
  const handle = wrapStream(client, guard, { stream: 'orders', consumerName: 'one' })
  state.availability = { kind: 'down', retryAt: later(), error: new Error('no store') }
  state.decide = () => ({ kind: 'defer', reason: 'store-down', until: later() })
  await clock.advance(1_500)
  expect(claims).toEqual([10])
  state.availability = { kind: 'available' }
  state.decide = () => ({ kind: 'ack', by: 'processed' })
  await clock.advance(1_000)
  expect(claims).toEqual([10, 10, 10, 10])
  await handle.consumption.drain()
})
