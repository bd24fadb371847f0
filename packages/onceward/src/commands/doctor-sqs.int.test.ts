// @module-tag nightly

import { CreateQueueCommand, GetQueueAttributesCommand, SQSClient } from '@aws-sdk/client-sqs'
import { skipped, sqs } from '@onceward/testing'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { cli } from '../fixtures/cli.ts'
import { examined, saying } from '../fixtures/examined.ts'
import { type Operated, operated } from '../fixtures/operated.ts'

const ENGINES = ['fauxqs', 'elasticmq'] as const
const CREDENTIALS = {
  ...{ AWS_REGION: 'us-east-1', AWS_ACCESS_KEY_ID: 'id', AWS_SECRET_ACCESS_KEY: 's3cr3t-key' },
}

describe.skipIf(skipped('sqs')).each(ENGINES)(
  'doctor --broker, the URL of a queue: %s',
  (engine) => {
    let server: Awaited<ReturnType<typeof sqs>>
    let client: SQSClient
    let at: Operated
    let env: Record<string, string>

    beforeAll(async () => {
      at = await operated()
      await at.send('registers the consumer', {})
      server = await sqs({ engine, process: true, native: true })
      client = new SQSClient(server.connection)
      // The host of the queue's URL need not be reachable.
      env = { ...CREDENTIALS, AWS_ENDPOINT_URL: server.connection.endpoint }
    }, 120_000)
    afterAll(async () => {
      client?.destroy()
      await server?.stop()
      await at?.[Symbol.asyncDispose]()
    })

    async function create(name: string, attributes: Record<string, string> = {}): Promise<string> {
      const command = new CreateQueueCommand({ QueueName: name, Attributes: attributes })
      return (await client.send(command)).QueueUrl ?? ''
    }

    async function redrive(deadUrl: string, maxReceiveCount: number): Promise<string> {
      const request = { QueueUrl: deadUrl, AttributeNames: ['All' as const] }
      const { Attributes } = await client.send(new GetQueueAttributesCommand(request))
      return JSON.stringify({ deadLetterTargetArn: Attributes?.QueueArn, maxReceiveCount })
    }

    test('a queue whose settings fit has no findings', async () => {
      const deadUrl = await create('fits-dead', { MessageRetentionPeriod: '1209600' })
      const RedrivePolicy = await redrive(deadUrl, 40)
      const url = await create('fits', { RedrivePolicy, VisibilityTimeout: '60' })
      expect(await examined(at, [`${url}?dead-letter=${deadUrl}`], env)).toEqual([])
    })

    test('each setting that does not fit is found, and the retention is compared with the dedup window', async () => {
      const deadUrl = await create('short-dead', { MessageRetentionPeriod: '60' })
      const RedrivePolicy = await redrive(deadUrl, 3)
      const url = await create('unfit', { RedrivePolicy, VisibilityTimeout: '5' })
      const found = await examined(at, [`${url}?dead-letter=${deadUrl}&window=1d`], env)
      expect(found).toContainEqual(saying(/^warning: The RedrivePolicy of .* after 3 receives/))
      expect(found).toContainEqual(saying(/^warning: The VisibilityTimeout of .* is 5000 ms/))
      // ElasticMQ has no retention.
      if (engine === 'fauxqs') {
        expect(found).toContainEqual(
          saying(/^error: .* keeps messages for 345600000 ms .*86400000/),
        )
        expect(found).toContainEqual(saying(/^warning: .*short-dead keeps messages for 60000 ms/))
      }
      const bare = await create('bare', { VisibilityTimeout: '60' })
      expect(await examined(at, [bare], env)).toEqual([
        saying(
          /^warning: .* has no RedrivePolicy: .* → Set one with maxReceiveCount \d+ or more\./,
        ),
      ])
      expect(await examined(at, [`${bare}?dead-letter=redrive&attempts=2`], env)).toEqual([
        saying(
          /^error: `deadLetter` is 'redrive', but .* has no RedrivePolicy.* → Set one, or name/,
        ),
      ])
    })

    test('queues that are missing, several at once, are found', async () => {
      const url = await create('there', { VisibilityTimeout: '60' })
      const found = await examined(at, [`${url}-gone`, `${url}?dead-letter=${url}-dead`], env)
      expect(found).toEqual([
        saying(/^error: The queue of `queueUrl`, .*there-gone, does not exist.* → Create it/),
        saying(/^error: The queue of `deadLetter.queueUrl`, .*there-dead, does not exist/),
      ])
    })

    test('a frozen endpoint is given up in time, and nothing secret is shown', async ({ skip }) => {
      skip(!server.canKill, 'the server cannot be frozen')
      const url = await create('frozen')
      await server.kill('SIGSTOP')
      const { code, stderr, stdout } = await cli(['doctor', '--broker', url], { ...at, env })
      await server.kill('SIGCONT')
      expect(code).toBe(3)
      expect(stderr).toMatch(/^onceward: No answer from SQS at [\w.-]+:\d+: /)
      expect(stderr + stdout).not.toMatch(/s3cr3t-key|\n\s+at /)
    })
  },
)
