import { createHash } from 'node:crypto'
import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { json } from 'node:stream/consumers'
import { ConfigurationError } from '@onceward/core'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test, vi } from 'vitest'
import { toDelivery } from './delivery.ts'
import { message } from './fixtures/recording-client.ts'
import { operate } from './operator.ts'

interface Asked {
  readonly call: string
  readonly region: string
  readonly input: Readonly<Record<string, unknown>>
}

/** What the server answers to each call: fields of a result, or the name of an error. */
const answers = new Map<string, object | string>()
const SILENCE = {}
const asked: Asked[] = []
/** A server that speaks the JSON protocol of SQS, as far as an operator asks it. */
const server = createServer((request, response) => {
  void json(request).then((given) => {
    const input = given as Asked['input']
    const call = String(request.headers['x-amz-target']).replace('AmazonSQS.', '')
    const [, region = ''] =
      /Credential=[^/]*\/\d+\/([^/]*)/.exec(String(request.headers.authorization)) ?? []
    asked.push({ call, region, input })
    const answer = answers.get(call) ?? {}
    // The next one is answered.
    if (answer === SILENCE && answers.delete(call)) return
    const isError = typeof answer === 'string'
    response.statusCode = isError ? (answer === 'InternalFailure' ? 500 : 400) : 200
    response.setHeader('content-type', 'application/x-amz-json-1.0')
    // The client compares the digest of what it has sent.
    const md5 = createHash('md5').update(String(input['MessageBody'])).digest('hex')
    const sent = call === 'SendMessage' ? { MessageId: 'm-2', MD5OfMessageBody: md5 } : {}
    response.end(
      JSON.stringify(
        isError ? { __type: `com.amazonaws.sqs#${answer}`, message: 'no' } : { ...sent, ...answer },
      ),
    )
  })
})

let endpoint: string
beforeAll(async () => {
  await once(server.listen(0, '127.0.0.1'), 'listening')
  endpoint = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
})
afterAll(() => {
  server.closeAllConnections()
  server.close()
})
beforeEach(() => {
  for (const [name, value] of Object.entries({
    ...{ AWS_REGION: 'us-east-2', AWS_ACCESS_KEY_ID: 'id', AWS_SECRET_ACCESS_KEY: 'secret' },
  })) {
    vi.stubEnv(name, value)
  }
})
afterEach(() => {
  vi.useRealTimers()
  vi.unstubAllEnvs()
  answers.clear()
  asked.length = 0
})

const aws = 'https://sqs.eu-central-1.amazonaws.com/000000000000/orders'
const operated = (url = aws, params = '', env: Readonly<Record<string, string>> = {}) =>
  operate({ url, params: new URLSearchParams(params), env: { AWS_ENDPOINT_URL: endpoint, ...env } })

describe('the address of a queue', () => {
  test.each([
    ['no URL', 'orders'],
    ['no queue', 'https://sqs.eu-central-1.amazonaws.com/'],
    ['a user', 'https://app@sqs.eu-central-1.amazonaws.com/1/orders'],
  ])('with %s is refused', (_what, url) => {
    expect(() => operated(url)).toThrow(ConfigurationError)
    expect(() => operated(url)).toThrow(/Expected the URL of a queue, such as https/)
  })

  // Red when the host decides: the queue of a VPC endpoint, or of an emulator, would own no dead letter.
  test.each([
    ['sqs', aws, true],
    ['sqs', 'https://vpce-1.sqs.eu-central-1.vpce.amazonaws.com/000000000000/orders', true],
    ['sqs', `${aws}-dead`, false],
    // Red when only the path is compared: the event was sent to the other region, and forgotten in its own.
    ['sqs', aws.replace('eu-central-1', 'us-east-1'), false],
    ['sqs', '/000000000000/orders', false],
    ['kafka', aws, false],
  ])('owns what came from %s, %s: %s', async (broker, queue, owned) => {
    await using operator = operated()
    expect(operator.owns({ broker, queue })).toBe(owned)
  })
})

describe('the region and the endpoint of a queue', () => {
  test.each([
    ['its host', aws, '', 'eu-central-1'],
    ['a host for FIPS', 'https://sqs-fips.us-west-1.amazonaws.com/1/orders', '', 'us-west-1'],
    ['a host for IPv6', 'https://sqs.us-west-1.api.aws/1/orders', '', 'us-west-1'],
    ['its parameter', aws, 'region=sa-east-1', 'sa-east-1'],
    ['the environment', 'http://localhost:4566/1/orders', '', 'us-east-2'],
    ['the environment', 'https://mysqs.eu-west-1.amazonaws.com/1/orders', '', 'us-east-2'],
  ])('come from %s', async (_what, url, params, region) => {
    await using broker = operated(url, params)
    await broker.ready({ broker: 'sqs', queue: url })
    expect(asked).toEqual([
      {
        ...{ call: 'GetQueueAttributes', region },
        input: { QueueUrl: url, AttributeNames: ['All'] },
      },
    ])
  })

  const dead = 'http://127.0.0.1:9'
  test.each<[string, (own: string) => Readonly<Record<string, string | undefined>>]>([
    ['SQS alone', (own) => ({ AWS_ENDPOINT_URL_SQS: own, AWS_ENDPOINT_URL: dead })],
    ['all of AWS', (own) => ({ AWS_ENDPOINT_URL: own })],
    ['none', () => ({})],
  ])('come from the environment: an endpoint of %s', async (_what, env) => {
    const url = `${endpoint}/000000000000/orders`
    const params = new URLSearchParams()
    await using broker = operate({ url, params, env: env(endpoint) })
    await broker.ready({ broker: 'sqs', queue: url })
    expect(asked).toHaveLength(1)
  })
})

describe('a queue is ready', () => {
  test.each([
    ['that may not be asked', 'AccessDeniedException'],
    ['that answers', {}],
  ])('%s', async (_what, answer) => {
    answers.set('GetQueueAttributes', answer)
    await using broker = operated()
    await expect(broker.ready({ broker: 'sqs', queue: aws })).resolves.toBeUndefined()
  })

  test('but not one that is missing, or whose server fails', async () => {
    await using broker = operated()
    answers.set('GetQueueAttributes', 'QueueDoesNotExist')
    const missing = broker.ready({ broker: 'sqs', queue: aws })
    await expect(missing).rejects.toThrow(`The queue of \`--broker\`, ${aws}, does not exist`)
    answers.set('GetQueueAttributes', 'InvalidSecurity')
    const failing = broker.ready({ broker: 'sqs', queue: aws })
    await expect(failing).rejects.toMatchObject({ name: 'InvalidSecurity' })
    await expect(failing).rejects.not.toBeInstanceOf(ConfigurationError)
  })
})

describe('a stored message', () => {
  const sentTo = async (url: string, ...of: Parameters<typeof message>) => {
    await using broker = operated(url)
    await broker.send(toDelivery(message(...of), url))
    return asked.map(({ input }) => input)
  }

  test('is sent to a standard queue as it was, with its group for fairness', async () => {
    const original = message('a')
    const [input, ...more] = await sentTo(aws, 'a', { MessageGroupId: 'fair' })
    expect(more).toEqual([])
    expect(input).toEqual({
      ...{ QueueUrl: aws, MessageBody: original.Body, MessageGroupId: 'fair' },
      MessageAttributes: original.MessageAttributes,
    })
    asked.length = 0
    expect((await sentTo(aws, 'a'))[0]).not.toHaveProperty('MessageGroupId')
  })

  // Red when the copy has the id of the original: SQS would drop it within five minutes, and answer 200.
  test('is sent to a FIFO queue in its group, with an id of its own', async () => {
    const ids = { MessageGroupId: 'g', MessageDeduplicationId: 'original' }
    await sentTo(`${aws}.fifo`, 'a', ids)
    const inputs = await sentTo(`${aws}.fifo`, 'a', ids)
    expect(inputs).toMatchObject([{ MessageGroupId: 'g' }, { MessageGroupId: 'g' }])
    const copies = inputs.map((input) => input['MessageDeduplicationId'])
    expect(new Set([...copies, 'original']).size).toBe(3)
  })

  test('that a dead process has stored without its own form goes to the group of its key', async () => {
    await using broker = operated(`${aws}.fifo`)
    const { envelope: _, raw: __, ...stored } = toDelivery(message('a'), aws)
    await broker.send({ ...stored, raw: undefined, orderingKey: 'g' })
    await broker.send({ ...stored, raw: { Body: 'no attributes' }, orderingKey: 'h' })
    expect(asked.map(({ input }) => input['MessageGroupId'])).toEqual(['g', 'h'])
  })

  test.each([
    ['QueueDoesNotExist', true],
    ['AccessDeniedException', true],
    ['InvalidParameterValue', true],
    ['InvalidSecurity', false],
    ['SomethingElse', false],
  ])('that is refused with %s was certainly not taken: %s', async (name, isCertain) => {
    answers.set('SendMessage', name)
    await using broker = operated()
    const sending = broker.send(toDelivery(message('a'), aws))
    await expect(sending).rejects.toThrow(isCertain ? /^The broker refused the message/ : /no/)
    const error = await sending.catch((thrown: unknown) => thrown)
    expect(error instanceof ConfigurationError).toBe(isCertain)
  })
})
