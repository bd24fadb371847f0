import { ConfigurationError } from '@onceward/core'
import { handMadeGuard } from '@onceward/testing/adapter'
import { expect, test } from 'vitest'
import type { QueueAttributes } from './client.ts'
import { examine, receiveBudget } from './doctor.ts'
import { type ConsumeSqsOptions, resolveSettings } from './options.ts'

const queueUrl = 'https://sqs.eu-west-1.amazonaws.com/000000000000/orders'
const deadUrl = `${queueUrl}-dead`
const budget = 14

const policy = (maxReceiveCount: number | string): string =>
  JSON.stringify({ deadLetterTargetArn: 'arn:aws:sqs:eu-west-1:0:x', maxReceiveCount })

const plain: QueueAttributes = {
  VisibilityTimeout: '30',
  MessageRetentionPeriod: '345600',
  MaximumMessageSize: '262144',
}
const healthy: QueueAttributes = { ...plain, RedrivePolicy: policy(budget) }

async function findings(
  source: QueueAttributes | Error,
  options: Partial<ConsumeSqsOptions> = {},
  dead: QueueAttributes | Error = healthy,
  longestMs: number | undefined = undefined,
): Promise<{ readonly problems: string; readonly warnings: readonly unknown[] }> {
  const { port, logged } = handMadeGuard()
  const settings = resolveSettings({ queueUrl, ...options }, port.settings)
  const attributes = async (url: string): Promise<QueueAttributes> => {
    const answer = url === queueUrl || url.endsWith('orders.fifo') ? source : dead
    if (answer instanceof Error) throw answer
    return answer
  }
  const surroundings = {
    api: { attributes, longestPollMs: () => longestMs },
    settings,
    guard: port.settings,
    logger: port.logger,
  }
  const problems = await examine(surroundings).then(
    () => '',
    (error: Error) => {
      if (!(error instanceof ConfigurationError)) throw error
      return error.message
    },
  )
  return { problems, warnings: logged.map(({ fields }) => fields['finding'] ?? fields['fix']) }
}

test('a queue with fitting settings gives no warning', async () => {
  expect(await findings(healthy)).toEqual({ problems: '', warnings: [] })
  const deadLetter = { queueUrl: deadUrl }
  expect(await findings(healthy, { deadLetter })).toEqual({ problems: '', warnings: [] })
})

// Red when only the URLs are compared: one queue has several, and its dead letters would come back at once, for ever.
test('a dead-letter queue that is the queue itself under another URL is refused', async () => {
  const own = { ...healthy, QueueArn: 'arn:aws:sqs:eu-west-1:000000000000:orders' }
  const deadLetter = { queueUrl: 'https://eu-west-1.queue.amazonaws.com/000000000000/orders' }
  expect((await findings(own, { deadLetter }, own)).problems).toMatch(
    `${queueUrl} and ${deadLetter.queueUrl} are the same queue: a dead message would come back again and again`,
  )
  const other = { ...healthy, QueueArn: `${own.QueueArn}-dead` }
  expect((await findings(own, { deadLetter }, other)).problems).toBe('')
})

test('the budget of receives covers attempts, long handlers and deferrals', () => {
  const { settings } = handMadeGuard().port
  expect(receiveBudget(settings, 33_000)).toBe(5 + 2 * 2 + 5)
})

// Red when the window is not compared with the retention: the message would be processed twice.
test('acceptance A16: a retention longer than the dedup window makes the start fail', async () => {
  const kept = { ...healthy, MessageRetentionPeriod: String(16 * 86_400) }
  expect((await findings(kept)).problems).toMatch(/dedupWindowMs/)
  const { dedupWindowMs } = handMadeGuard().port.settings
  const asLong = { ...healthy, MessageRetentionPeriod: String(dedupWindowMs / 1_000) }
  expect((await findings(asLong)).problems).toBe('')
})

test("'redrive' without a redrive policy makes the start fail", async () => {
  expect((await findings(plain, { deadLetter: 'redrive' })).problems).toMatch(/RedrivePolicy/)
})

// Red when nobody says it: a group stands still for minutes after a message that is dead.
test("'redrive' on a FIFO queue gives a warning, because a dead message holds its group", async () => {
  const options = { queueUrl: `${queueUrl}.fifo`, deadLetter: 'redrive' } as const
  const { problems, warnings } = await findings({ ...healthy, FifoQueue: 'true' }, options)
  expect(problems).toBe('')
  expect(warnings).toEqual([expect.stringMatching(/holds the later messages of its group.*Name a/)])
})

test.each<[string, QueueAttributes, RegExp]>([
  ['no redrive policy', plain, /has no RedrivePolicy/],
  ['too few receives', { ...healthy, RedrivePolicy: policy(5) }, /maxReceiveCount to 14/],
  [
    'too few receives, as text',
    { ...healthy, RedrivePolicy: policy('5') },
    /maxReceiveCount to 14/,
  ],
  ['a short visibility', { ...healthy, VisibilityTimeout: '5' }, /set it to 33 seconds/],
  ['a FIFO queue by attributes only', { ...healthy, FifoQueue: 'true' }, /FIFO/],
])('a queue setting gives a warning with its fix: %s', async (_what, attributes, expected) => {
  const { problems, warnings } = await findings(attributes)
  expect(problems).toBe('')
  expect(warnings).toEqual([expect.stringMatching(expected)])
})

test('a visibility timeout below the lease gives a warning', async () => {
  const { warnings } = await findings(
    { ...healthy, RedrivePolicy: policy(99) },
    { visibilityMs: 10_000 },
  )
  expect(warnings).toEqual([expect.stringMatching(/Set it to 33000/)])
  const { leaseMs } = handMadeGuard().port.settings
  const asLong = { ...healthy, RedrivePolicy: policy(99) }
  expect((await findings(asLong, { visibilityMs: leaseMs })).warnings).toEqual([])
})

test.each<[string, Partial<QueueAttributes>, RegExp]>([
  ['takes only smaller messages', { MaximumMessageSize: '1024' }, /MaximumMessageSize/],
  [
    'keeps messages for less time',
    { MessageRetentionPeriod: '60' },
    /MessageRetentionPeriod, 1209600/,
  ],
])('a dead-letter queue that %s gives a warning', async (_what, attributes, expected) => {
  const deadLetter = { queueUrl: deadUrl }
  const { warnings } = await findings(healthy, { deadLetter }, { ...healthy, ...attributes })
  expect(warnings).toEqual([expect.stringMatching(expected)])
})

test('a dead-letter queue of another type gives a warning', async () => {
  const options = { queueUrl: `${queueUrl}.fifo`, deadLetter: { queueUrl: deadUrl } }
  const { warnings } = await findings({ ...healthy, FifoQueue: 'true' }, options)
  expect(warnings).toEqual([expect.stringMatching(/same type/)])
})

const missing = Object.assign(new Error('no queue'), { name: 'QueueDoesNotExist' })

test('the start fails with the name of a queue that does not exist', async () => {
  expect((await findings(missing)).problems).toMatch(`\`queueUrl\`, ${queueUrl}, does not exist`)
  const deadLetter = { queueUrl: deadUrl }
  const { problems } = await findings(healthy, { deadLetter }, missing)
  expect(problems).toMatch(`\`deadLetter.queueUrl\`, ${deadUrl}, does not exist`)
})

// Red before: the consumer resolved, was `recovering`, and tried again for ever.
test('the start fails if the client has no region, and says where it is set', async () => {
  const { problems } = await findings(new Error('Region is missing'))
  expect(problems).toMatch(/no region .*\(Region is missing\).*AWS_REGION/)
})

test('a missing permission to read attributes gives only a warning', async () => {
  const denied = Object.assign(new Error('no'), { name: 'AccessDenied' })
  expect(await findings(denied)).toEqual({
    problems: '',
    warnings: ['allow sqs:GetQueueAttributes on this queue'],
  })
  const deadLetter = { queueUrl: deadUrl }
  expect((await findings(denied, { deadLetter })).warnings).toHaveLength(1)
})

test('any other error is thrown, so that the caller can retry', async () => {
  const down = Object.assign(new Error('down'), { code: 'ECONNREFUSED' })
  await expect(findings(down)).rejects.toBe(down)
})

// Red when a timeout of the client is compared with something else than the long poll.
test('a client that gives up before a long poll ends gives a warning, one that waits as long gives none', async () => {
  const warnings = async (longestMs: number, longPollMs?: number) =>
    (await findings(healthy, { longPollMs }, healthy, longestMs)).warnings
  expect(await warnings(4_000)).toEqual([
    expect.stringMatching(/long poll of 20000 ms.* wait for 4000 ms only.* 21000 ms or more/),
  ])
  expect([await warnings(20_000), await warnings(4_000, 4_000)]).toEqual([[], []])
})
