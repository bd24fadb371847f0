import { once } from 'node:events'
import { expect, test } from 'vitest'
import { running } from '../fixtures/cli.ts'
import { operated } from '../fixtures/operated.ts'
import { CREDENTIALS, slowQueue } from '../fixtures/slow-queue.ts'

// Red before: the message was in the queue, and stayed here as one that may be. A refused message is not sent again then.
test.each(['SIGINT', 'SIGTERM'] as const)(
  'a requeue ends after the message in hand at %s, and says what was done',
  async (signal) => {
    await using at = await operated()
    for (const key of ['order-1', 'order-2']) await at.sendBytes(key, Buffer.from('no JSON'))
    const isConfirmed = Promise.withResolvers<void>()
    await using queue = await slowQueue(isConfirmed.promise)
    await at.pool.query('update onceward.refused_messages set source = $1', [
      JSON.stringify({ broker: 'sqs', queue: queue.url }),
    ])
    const args = ['dead-letters', 'requeue', '--all', '--yes', '--broker', queue.url]
    const child = running(args, at.url, CREDENTIALS)
    let text = ''
    for (const stream of [child.stdout, child.stderr]) {
      stream.on('data', (chunk: Buffer) => {
        text += chunk.toString()
      })
    }
    await queue.isSent
    child.kill(signal)
    isConfirmed.resolve()
    expect(await once(child, 'close')).toEqual([1, null])
    expect(text).toContain('1 dead letter sent back.\n')
    expect(text).toContain('Interrupted: 1 dead letter was not tried.\n')
    const audit = await at.pool.query('select action from onceward.audit order by id')
    expect(audit.rows.map(({ action }) => action)).toEqual(['requeue', 'requeued'])
  },
)
