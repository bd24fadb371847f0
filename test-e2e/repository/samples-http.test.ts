// @module-tag nightly

import { randomUUID } from 'node:crypto'
import { migrate } from '@onceward/postgres'
import { freePort, until } from '@onceward/testing'
import { describe, expect, test } from 'vitest'
import { openScenario, run } from '../support/samples.ts'

describe('the samples of docs/http.md run as they are', () => {
  test.each([
    ['http-before', 2],
    ['http-express', 1],
  ] as const)('%s charges a request that is sent twice %i times', async (name, charges) => {
    const port = await freePort()
    await using scenario = await openScenario({ PORT: String(port) })
    await migrate(scenario.pool)
    await using server = run(name, scenario)
    const key = randomUUID()
    const send = (): Promise<Response> =>
      fetch(`http://127.0.0.1:${port}/charges`, {
        method: 'POST',
        headers: { 'content-type': 'application/json', 'idempotency-key': key, 'x-account': 'a' },
        body: JSON.stringify({ orderId: 'order-1', cents: 500 }),
      })
    let first: Response | undefined
    await until(
      async () => {
        expect(server.process.exitCode, server.output()).toBeNull()
        first = await send().catch(() => undefined)
        return first !== undefined
      },
      { what: 'an answer', deadlineMs: 30_000 },
    )
    const second = await send()
    const texts = [await first?.text(), await second.text()]
    expect(texts).toEqual(Array(2).fill('{"orderId":"order-1","charged":500}'))
    expect([first?.status, second.status]).toEqual([201, 201])
    const { rows } = await scenario.pool.query('select order_id, cents from charges')
    expect(rows).toEqual(Array(charges).fill({ order_id: 'order-1', cents: 500 }))
  })
})
