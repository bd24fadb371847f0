import type { ReceiveMessageCommandInput, SQSClientConfig } from '@aws-sdk/client-sqs'
import { sqs, until } from '@onceward/testing'
import { guardOf } from '@onceward/testing/adapter'
import { expect, test } from 'vitest'
import { Queues } from './fixtures/queues.ts'
import { consumeSqs } from './index.ts'

/**
 * Returns the `WaitTimeSeconds` of the first receive of a consumer with the real client, and the consumer's warnings.
 *
 * ElasticMQ answers a long poll whose client has given up, and hides and counts the messages. With a `socketTimeout` of a
 * second ten of twelve messages, each sent to an empty queue, waited for a visibility timeout.
 */
async function firstReceive(requestHandler: SQSClientConfig['requestHandler']) {
  await using server = await sqs()
  const queues = new Queues(server.connection)
  const queueUrl = await queues.create()
  const client = queues.another(requestHandler === undefined ? {} : { requestHandler })
  const waits: unknown[] = []
  client.middlewareStack.add(
    (next, { commandName }) =>
      (args) => {
        const { WaitTimeSeconds } = args.input as ReceiveMessageCommandInput
        if (commandName === 'ReceiveMessageCommand') waits.push(WaitTimeSeconds)
        return next(args)
      },
    { step: 'initialize' },
  )
  const found: (string | undefined)[] = []
  const ignore = (): void => undefined
  const warn = ({ finding }: { readonly finding?: string }): void => void found.push(finding)
  const logger = { debug: ignore, info: ignore, error: ignore, warn }
  const guard = guardOf(ignore, { logger })
  await using _ = await consumeSqs(client, guard, { queueUrl, drainMs: 0 })
  await until(() => waits.length > 0)
  return { wait: waits[0], warnings: found.filter((text) => text?.includes('requestHandler')) }
}

// Red when a long poll lasts longer than the client waits.
test.each([
  ['socketTimeout', { socketTimeout: 5_000 }],
  ['requestTimeout', { requestTimeout: 5_000, throwOnRequestTimeout: true }],
])(
  'a client whose %s is shorter than a long poll gets shorter ones, and a warning',
  async (_name, timeouts) => {
    expect(await firstReceive(timeouts)).toEqual({
      wait: 4,
      warnings: [expect.stringMatching(/wait for 4000 ms only.* 21000 ms or more/)],
    })
  },
)

test.each([
  ['no timeout', undefined],
  ['a timeout that is long enough', { socketTimeout: 21_000 }],
  ['a timeout that only warns', { requestTimeout: 5_000 }],
])('a client with %s gets long polls of their full length', async (_name, timeouts) => {
  expect(await firstReceive(timeouts)).toEqual({ wait: 20, warnings: [] })
})
