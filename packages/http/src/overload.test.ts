import { heapBytes } from '@onceward/testing/heap'
import { describe, expect, test, vi } from 'vitest'
import { guardOf, kindOf, requestOf, shown } from './fixtures/charges.ts'

const CLIENTS = 5_000
const HELD = 100
const BODY_BYTES = 20_000

/** A guard that runs two requests at a time, each until the gate opens. */
function gatedGuard() {
  const gate = Promise.withResolvers<void>()
  const handler = vi.fn(async () => {
    await gate.promise
    return { body: 'charged' }
  })
  const guard = guardOf(handler, { concurrency: 2, maxWaiting: HELD - 2 })
  return { gate, guard, handler }
}

describe('more requests than may wait', () => {
  test('are answered 503 at once, and run later with the same keys', async () => {
    const { gate, guard, handler } = gatedGuard()
    const requests = Array.from({ length: HELD + 20 }, (_, client) => ({ key: `k${client}` }))
    const answering = requests.map(async (sent) => shown(await guard.fetch(requestOf(sent))))
    const refused = await Promise.all(answering.slice(HELD))
    expect(refused.map(kindOf)).toEqual(Array(20).fill('overloaded'))
    expect(refused[0]).toMatchObject({ status: 503, headers: { 'retry-after': '1' } })
    expect(guard.health().inFlight).toBe(HELD)
    gate.resolve()
    const held = await Promise.all(answering.slice(0, HELD))
    expect(held.map(({ status }) => status)).toEqual(Array(HELD).fill(200))
    const again = requests.slice(HELD).map(async (sent) => guard.fetch(requestOf(sent)))
    expect((await Promise.all(again)).map(({ status }) => status)).toEqual(Array(20).fill(200))
    expect(handler).toHaveBeenCalledTimes(HELD + 20)
    await guard.close()
  })

  test('leave nothing in memory, however many they are', async () => {
    const { gate, guard } = gatedGuard()
    const body = JSON.stringify({ note: 'x'.repeat(BODY_BYTES) })
    const held: Promise<Response>[] = []
    const before = heapBytes()
    for (let client = 0; client < CLIENTS; client += 1) {
      const answering = guard.fetch(requestOf({ body }))
      if (client < HELD) held.push(answering)
      else expect((await answering).status).toBe(503)
    }
    // A request that waits has its body as bytes and as a value.
    expect(heapBytes() - before).toBeLessThan(HELD * BODY_BYTES * 5)
    gate.resolve()
    for (const answer of await Promise.all(held)) expect(answer.status).toBe(200)
    await guard.close()
  })
})
