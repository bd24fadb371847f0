// @module-tag nightly

import { createHmac } from 'node:crypto'
import { migrate } from '@onceward/postgres'
import { freePort, until } from '@onceward/testing'
import { expect, test } from 'vitest'
import { openScenario, run } from '../support/samples.ts'

const SECRET = 'whsec_of_the_sample'
const COPIES = 40

const body = JSON.stringify({ id: 'evt_1', data: { orderId: 'order-1', cents: 500 } })

function signatureOf(secret: string): string {
  const seconds = Math.floor(Date.now() / 1_000)
  const v1 = createHmac('sha256', secret).update(`${seconds}.${body}`).digest('hex')
  return `t=${seconds},v1=${v1}`
}

test.each([
  ['webhooks-before', 2 + COPIES + 1, 200],
  ['webhooks-stripe', 1, 200],
  ['webhooks-later', 1, 202],
] as const)(
  '%s charges an event that is delivered many times at once, and once by a stranger, %i times',
  async (name, charges, status) => {
    const port = await freePort()
    await using scenario = await openScenario({ PORT: String(port), SIGNING_SECRET: SECRET })
    await migrate(scenario.pool)
    await using server = run(name, scenario)
    const send = (secret = SECRET): Promise<Response> =>
      fetch(`http://127.0.0.1:${port}/webhooks`, {
        method: 'POST',
        headers: { 'content-type': 'application/json', 'stripe-signature': signatureOf(secret) },
        body,
      })
    await until(
      async () => {
        expect(server.process.exitCode, server.output()).toBeNull()
        return (await send().catch(() => undefined)) !== undefined
      },
      { what: 'an answer', deadlineMs: 30_000 },
    )
    const answers = await Promise.all(Array.from({ length: COPIES }, () => send()))
    // A copy in flight is delivered again by the provider.
    for (const answer of answers) expect([status, 409]).toContain(answer.status)
    expect((await send()).status).toBe(status)
    expect((await send('whsec_of_a_stranger')).status).toBe(name === 'webhooks-before' ? 200 : 401)
    await until(async () => {
      const { rows } = await scenario.pool.query('select order_id, cents from charges')
      expect(rows).toEqual(Array(charges).fill({ order_id: 'order-1', cents: 500 }))
      const waiting = "select from onceward.processed_events where state <> 'd'"
      return (await scenario.pool.query(waiting)).rowCount === 0
    })
    expect(server.output()).not.toContain(SECRET)
  },
)
