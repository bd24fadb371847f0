import { createHash } from 'node:crypto'
import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { until } from '@onceward/testing'
import { expect, test } from 'vitest'
import { operated } from '../fixtures/operated.ts'
import { served } from '../fixtures/served.ts'

/** A queue whose sends wait for `confirmed`. */
async function slowQueue(confirmed: Promise<unknown>) {
  const isSent = Promise.withResolvers<void>()
  const server = createServer(async (request, response) => {
    let text = ''
    for await (const chunk of request) text += chunk
    const isSend = request.headers['x-amz-target'] === 'AmazonSQS.SendMessage'
    if (isSend) {
      isSent.resolve()
      await confirmed
    }
    const body = isSend ? String(JSON.parse(text).MessageBody) : ''
    const MD5OfMessageBody = createHash('md5').update(body).digest('hex')
    response.setHeader('content-type', 'application/x-amz-json-1.0')
    response.end(JSON.stringify(isSend ? { MessageId: '1', MD5OfMessageBody } : { Attributes: {} }))
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const origin = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  return { origin, server, isSent: isSent.promise }
}

// Red before: the message was in the queue, and stayed here as one that may be. A refused message is not sent again then.
test('Ctrl-C lets a change end that is at work', async () => {
  await using at = await operated()
  await at.sendBytes('order-1', Buffer.from('no JSON'))
  const isEnding = Promise.withResolvers<void>()
  const { origin, server, isSent } = await slowQueue(isEnding.promise)
  const queueUrl = `${origin}/000000000000/orders`
  const { rows } = await at.pool.query(
    'update onceward.refused_messages set source = $1 returning refused_id::text as id',
    [JSON.stringify({ broker: 'sqs', queue: queueUrl })],
  )
  const env = { AWS_REGION: 'us-east-1', AWS_ACCESS_KEY_ID: 'id', AWS_SECRET_ACCESS_KEY: 'key' }
  const console = await served({ url: at.url, env }, '--allow-changes', '--broker', queueUrl)
  const requeued = fetch(`${console.origin}/api/requeue`, {
    method: 'POST',
    headers: {
      ...{ origin: console.origin, authorization: `Bearer ${console.token}` },
      'content-type': 'application/json',
    },
    body: JSON.stringify({ ids: [rows[0].id] }),
  }).then((response) => response.json(), String)
  await isSent
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
  server.close()
})
