import { until } from '@onceward/testing'
import { expect, test } from 'vitest'
import { operated } from '../fixtures/operated.ts'
import { served } from '../fixtures/served.ts'
import { CREDENTIALS, slowQueue } from '../fixtures/slow-queue.ts'

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
  await until(() =>
    fetch(console.origin).then(
      () => false,
      () => true,
    ),
  )
  isEnding.resolve()
  await ended
  expect(await requeued).toEqual({ done: [rows[0].id], untouched: [] })
  const audit = await at.pool.query('select action from onceward.audit order by id')
  expect(audit.rows.map(({ action }) => action)).toEqual(['requeue', 'requeued'])
})
