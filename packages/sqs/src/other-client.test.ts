import { handMadeGuard } from '@onceward/testing/adapter'
import { describe, expect, test } from 'vitest'
import { consumeSqs } from './consume.ts'
import { wrapSqs } from './wrap.ts'

const { guard } = handMadeGuard()
const options = { queueUrl: 'https://sqs.test/1/orders' }

/** The services of aws-sdk 2 have a method for each request, and no `send`. */
const version2 = { receiveMessage: () => undefined, deleteMessageBatch: () => undefined }

// Red before: the consumer took each TypeError for a server that is down, and tried for ever. The wrap ran its
// handlers, deleted nothing, and was `running`.
describe.each<[string, unknown]>([
  ['a service of aws-sdk 2', version2],
  ['the class itself', class SQSClient {}],
  ['nothing', undefined],
  ['null', null],
])('%s instead of a client', (_, client) => {
  test.each<[string, () => unknown]>([
    ['consumeSqs', () => consumeSqs(client as never, guard, options)],
    ['wrapSqs', async () => wrapSqs(client as never, guard, options)],
  ])('is refused by %s with an error that says what to give', async (name, call) => {
    await expect(call()).rejects.toMatchObject({
      code: 'ONCEWARD_CONFIGURATION',
      message: expect.stringMatching(
        new RegExp(`^Expected ${name} to get a client of @aws-sdk/client-sqs, got .*SQSClient`),
      ),
    })
  })
})
