import { Clock } from '@onceward/testing/adapter'
import { describe, expect, test } from 'vitest'
import { stepped } from '../../fixtures/stepped.ts'
import { connect, disconnect } from './connect.ts'

/** A consumer that connects and disconnects when the test says so. */
function connecting() {
  const clock = new Clock()
  const { calls, connected, disconnected, client: consumer } = stepped()
  const world = { isWanted: true }
  /** What became of a promise, so far. */
  const fateOf = (promise: Promise<unknown>): { now: unknown } => {
    const fate: { now: unknown } = { now: 'pending' }
    promise.then(
      () => Object.assign(fate, { now: 'resolved' }),
      (error: unknown) => Object.assign(fate, { now: error }),
    )
    return fate
  }
  const limits = { runtime: clock.runtime, limitMs: 5_000, isWanted: () => world.isWanted }
  return {
    ...{ clock, calls, connected, disconnected, world },
    connect: () => fateOf(connect(consumer, limits)),
    disconnect: (joining: Promise<unknown>) => fateOf(disconnect(consumer, joining, clock.runtime)),
  }
}

describe('a consumer that connects', () => {
  test('is awaited, on a timer that does not keep the process alive', async () => {
    const kit = connecting()
    const fate = kit.connect()
    await kit.clock.advance(4_999)
    expect(fate.now).toBe('pending')
    kit.connected.resolve()
    await kit.clock.advance(0)
    expect([fate.now, kit.calls, kit.clock.timers]).toEqual(['resolved', ['connect'], 0])
    expect(kit.clock.asked).toEqual([{ delayMs: 5_000, keepAlive: false }])
  })

  test('fails with the error of kafkajs', async () => {
    const kit = connecting()
    const fate = kit.connect()
    const refused = new Error('connect ECONNREFUSED')
    kit.connected.reject(refused)
    await kit.clock.advance(0)
    expect([fate.now, kit.clock.timers]).toEqual([refused, 0])
  })

  // Red when kafkajs is waited for: it never answers if an `oauthBearerProvider` does not.
  test('fails after the limit if nothing answers', async () => {
    const kit = connecting()
    const fate = kit.connect()
    await kit.clock.advance(5_000)
    const message = 'Connecting to Kafka got no answer within 5000 ms'
    expect(fate.now).toMatchObject({ name: 'TimeoutError', message })
    expect(kit.calls).toEqual(['connect'])
  })

  // Red when nobody disconnects it: its socket would keep the process alive.
  test('is disconnected again if it was let go meanwhile, and awaited until it is', async () => {
    const kit = connecting()
    const fate = kit.connect()
    kit.world.isWanted = false
    kit.connected.resolve()
    await kit.clock.advance(0)
    expect([fate.now, kit.calls]).toEqual(['pending', ['connect', 'disconnect']])
    kit.disconnected.resolve()
    await kit.clock.advance(0)
    expect(fate.now).toBe('resolved')
  })

  test('is disconnected even if it connects only after the limit', async () => {
    const kit = connecting()
    kit.connect()
    await kit.clock.advance(5_000)
    kit.world.isWanted = false
    kit.connected.resolve()
    await kit.clock.advance(0)
    expect(kit.calls).toEqual(['connect', 'disconnect'])
    // The caller has gone on, so a failure of this promise would be an unhandled rejection.
    kit.disconnected.reject(new Error('Connection closed'))
    await kit.clock.advance(0)
  })
})

describe('a consumer that leaves', () => {
  // Red when it disconnects at once: what it asks for next opens a connection that nobody closes.
  test('is disconnected after its join, and awaited until it is', async () => {
    const kit = connecting()
    const joining = Promise.withResolvers<void>()
    const fate = kit.disconnect(joining.promise)
    await kit.clock.advance(0)
    expect(kit.calls).toEqual([])
    joining.resolve()
    await kit.clock.advance(0)
    expect([fate.now, kit.calls]).toEqual(['pending', ['disconnect']])
    kit.disconnected.resolve()
    await kit.clock.advance(0)
    expect([fate.now, kit.clock.timers]).toEqual(['resolved', 0])
  })

  test.each(['its join', 'its disconnect'])(
    'is awaited for three seconds at most: %s hangs',
    async (what) => {
      const kit = connecting()
      const joining = Promise.withResolvers<void>()
      if (what !== 'its join') joining.resolve()
      const fate = kit.disconnect(joining.promise)
      await kit.clock.advance(2_999)
      expect(fate.now).toBe('pending')
      await kit.clock.advance(1)
      expect(fate.now).toBe('resolved')
      // kafkajs finishes the rest.
      joining.resolve()
      await kit.clock.advance(0)
      expect(kit.calls).toEqual(['disconnect'])
    },
  )

  test('has left if kafkajs fails to disconnect it', async () => {
    const kit = connecting()
    const fate = kit.disconnect(Promise.resolve())
    kit.disconnected.reject(new Error('Connection closed'))
    await kit.clock.advance(0)
    expect(fate.now).toBe('resolved')
  })
})
