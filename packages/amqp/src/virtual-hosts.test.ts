import { expect, test } from 'vitest'
import { virtualHostOf } from './clients/virtual-host.ts'
import { RecordingChannel, RecordingConnection } from './fixtures/recording-channel.ts'
import { operate } from './operator.ts'

test.each([
  ["NOT_FOUND - no queue 'x' in vhost '/'", '/'],
  // The name of a virtual host may contain quotes.
  ["NOT_FOUND - no queue 'x' in vhost 're'funds'", "re'funds"],
  [
    "ACCESS_REFUSED - configure access to queue 'x' in vhost 'refunds' refused for user 'guest'",
    'refunds',
  ],
  ['NOT_FOUND - no such queue', undefined],
])('the virtual host is read from the refusal %s', async (message, name) => {
  const connection = new RecordingConnection()
  connection.answers.set('checkQueue', () => {
    throw Object.assign(new Error(`Operation failed: QueueDeclare; ${message}`), { code: 404 })
  })
  const open = async () => new RecordingChannel(connection) as never
  expect(await virtualHostOf(open)).toBe(name)
})

// Red when the name of the queue decides: a dead letter is put back on the queue of another virtual host.
test('dead letters are put back on the queue of their own virtual host', () => {
  const owns = (url: string, namespace?: string): boolean =>
    operate({ url, params: new URLSearchParams(), env: {} }).owns({
      ...{ broker: 'amqp', queue: 'orders', namespace },
    })
  expect(owns('amqp://localhost', '/')).toBe(true)
  expect(owns('amqp://localhost/re%2Ffunds', 're/funds')).toBe(true)
  expect(owns('amqp://localhost/refunds')).toBe(true)
  expect(owns('amqp://localhost/refunds', '/')).toBe(false)
})
