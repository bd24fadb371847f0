import { once } from 'node:events'
import { connect } from 'node:net'
import { until } from '@onceward/testing'
import { expect, test } from 'vitest'
import { operated } from '../fixtures/operated.ts'
import { served } from '../fixtures/served.ts'
import { CREDENTIALS, slowQueue } from '../fixtures/slow-queue.ts'

/** On a connection of its own: a server that closes answers on for those that are kept alive. */
async function isClosed(origin: string): Promise<boolean> {
  const { hostname, port } = new URL(origin)
  const socket = connect(Number(port), hostname)
  try {
    await once(socket, 'connect')
    return false
  } catch {
    return true
  } finally {
    socket.destroy()
  }
}

// Red before: the message was in the queue, and stayed here as one that may be. A refused message is not sent again then.
test('Ctrl-C lets a change end that is at work', async () => {
  await using at = await operated()
  await at.sendBytes('order-1', Buffer.from('no JSON'))
  const isEnding = Promise.withResolvers<void>()
  await using queue = await slowQueue(isEnding.promise)
  const { rows } = await at.pool.query(
    'update onceward.refused_messages set source = $1 returning refused_id::text as id',
    [JSON.stringify({ broker: 'sqs', queue: queue.url })],
  )
  const from = { url: at.url, env: CREDENTIALS }
  const console = await served(from, '--allow-changes', '--broker', queue.url)
  const requeued = fetch(`${console.origin}/api/requeue`, {
    method: 'POST',
    headers: {
      ...{ origin: console.origin, authorization: `Bearer ${console.token}` },
      'content-type': 'application/json',
    },
    body: JSON.stringify({ ids: [rows[0].id] }),
  }).then((response) => response.json(), String)
  await queue.isSent
  const ended = console[Symbol.asyncDispose]()
  await until(() => isClosed(console.origin))
  isEnding.resolve()
  await ended
  expect(await requeued).toEqual({ done: [rows[0].id], untouched: [] })
  const audit = await at.pool.query('select action from onceward.audit order by id')
  expect(audit.rows.map(({ action }) => action)).toEqual(['requeue', 'requeued'])
})
