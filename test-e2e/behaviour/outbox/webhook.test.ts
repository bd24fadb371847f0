import { createServer, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { text } from 'node:stream/consumers'
import { webhookDestination } from '@onceward/http/webhooks'
import { migrate } from '@onceward/postgres'
import { type RelayOptions, sendWith, startRelay } from '@onceward/postgres/outbox'
import { database, until } from '@onceward/testing'
import { silent } from '@onceward/testing/conformance'
import pg from 'pg'
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest'

const MESSAGES = 200
const secret = `whsec_${Buffer.alloc(24, 7).toString('base64')}`

let pool: pg.Pool
beforeAll(async () => {
  pool = new pg.Pool({ connectionString: (await database()).url, max: 10 })
  await migrate(pool)
})
afterAll(() => pool.end())
beforeEach(() => pool.query('delete from onceward.outbox_messages'))

type Answer = (n: number, response: ServerResponse) => void

/** A receiver on a socket, a relay to it, and 200 messages of 20 keys that wait. */
async function relayed(answer: Answer, over: Partial<RelayOptions> = {}) {
  const got: number[] = []
  const server = createServer((request, response) => {
    void text(request).then((body) => {
      const n = Number(body)
      answer(n, response)
      if (response.statusCode === 204) got.push(n)
    })
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/hooks`
  const client = await pool.connect()
  await client.query('begin')
  const messages = Array.from({ length: MESSAGES }, (_, n) => ({
    ...{ to: 'hooks', key: `k${n % 20}`, payload: n },
  }))
  await sendWith(client, messages, { source: 'test' })
  await client.query('commit')
  client.release()
  const relay = await startRelay({
    ...{ pool, logger: silent, callMs: 2_000, leaseMs: 1_000 },
    destinations: { hooks: webhookDestination({ url, secret }) },
    ...over,
  })
  const stop = async (): Promise<void> => {
    server.closeAllConnections()
    server.close()
    await relay.drain()
  }
  return { got, relay, stop }
}

const left = async (where = 'true'): Promise<number> => {
  const of = `select count(*)::int as n from onceward.outbox_messages where ${where}`
  return (await pool.query(of)).rows[0].n
}

const status = (code: number) => (response: ServerResponse) => response.writeHead(code).end()
const fine = status(204)
const POISON = 43

// Red when the answer to one message is taken for an outage of its destination: nothing is counted then, and the others leave
// at the pace of the breaker.
test.each<readonly [what: string, answer: (response: ServerResponse) => unknown]>([
  ['answers 500', status(500)],
  ['answers 429', status(429)],
  ['answers 400', status(400)],
  ['never answers', () => undefined],
])(
  'a receiver that %s to one message gets all other keys, and that one is dead in the end',
  async (_what, refuse) => {
    const { got, relay, stop } = await relayed(
      (n, response) => void (n === POISON ? refuse(response) : fine(response)),
      { attempts: 2, baseMs: 50, maxMs: 100 },
    )
    try {
      await until(async () => (await left("state = 'x'")) === 1, { deadlineMs: 60_000 })
      // What waited behind it leaves too.
      await until(() => got.length === MESSAGES - 1, { deadlineMs: 60_000 })
      await until(async () => (await left()) === 1)
      expect(new Set(got).size).toBe(MESSAGES - 1)
      expect(relay.health().outages).toBeUndefined()
    } finally {
      await stop()
    }
  },
)

test('a receiver that answers 503 to one key of twenty gets the nineteen others', async () => {
  const { got, relay, stop } = await relayed((n, response) => {
    if (n % 20 === 3) response.writeHead(503).end()
    else fine(response)
  })
  try {
    await until(() => got.length === 190)
    await until(async () => (await left("state = 'w' and attempt >= 1")) === 1)
    expect(relay.health().outages).toBeUndefined()
  } finally {
    await stop()
  }
})

// Red before: the whole backlog was dead after 7.4 minutes.
test.each([401, 403, 404])(
  'a receiver that answers %i to everything is down: nothing is counted, and all of it leaves later',
  async (code) => {
    let isDown = true
    const { got, relay, stop } = await relayed((_, response) => {
      if (isDown) response.writeHead(code).end()
      else fine(response)
    })
    try {
      await until(() => relay.health().outages !== undefined)
      expect(await left('attempt > 0')).toBe(0)
      isDown = false
      await until(() => got.length === MESSAGES, { deadlineMs: 60_000 })
      expect(await left("state = 'x'")).toBe(0)
    } finally {
      await stop()
    }
  },
)
