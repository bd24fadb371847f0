import { DEFAULTS } from '@onceward/core'
import type { OperatedBroker } from '@onceward/core/adapter'
import { describe, expect, test } from 'vitest'
import { parseBroker } from './broker-address.ts'
import { brokerFindings, splitRemedy, type Windows } from './broker-findings.ts'

const DAY = 86_400_000
const BILLING: Windows = new Map([['billing', 15 * DAY]])
const TWO: Windows = new Map([...BILLING, ['mail', DAY]])

async function found(address: string, windows = BILLING, answer: unknown = {}) {
  const asked: unknown[] = []
  const inspect = async (guard: unknown) => {
    asked.push(guard)
    return { problems: [], warnings: [], ...Object(answer) }
  }
  const open = {
    named: parseBroker(address),
    ask: async (question: (broker: OperatedBroker) => unknown) =>
      question({ inspect } as unknown as OperatedBroker),
  }
  return { findings: await brokerFindings(open as never, windows), asked }
}

describe('the queue is read with the eyes of', () => {
  test('the only consumer that there is, with what a guard has by default', async () => {
    const { asked, findings } = await found('amqp://host?queue=orders')
    expect(findings).toEqual([])
    expect(asked).toMatchObject([
      {
        ...{ consumer: 'billing', dedupWindowMs: 15 * DAY, leaseMs: DEFAULTS.leaseMs },
        ...{ maxAttempts: DEFAULTS.retry.attempts, deadlineMs: DEFAULTS.deadlineMs },
        ...{ hasInbox: true, hasLeases: false, lanesAreUsers: false, transaction: 'each' },
      },
    ])
  })

  test('the one that is named, as the address says', async () => {
    const given = 'consumer=mail&window=2d&lease=90s&deadline=10s&attempts=3'
    const { asked } = await found(`kafka://host?${given}`, TWO)
    expect(asked).toMatchObject([
      {
        ...{ consumer: 'mail', dedupWindowMs: 2 * DAY, leaseMs: 90_000, deadlineMs: 10_000 },
        ...{ maxAttempts: 3, hasLeases: true },
      },
    ])
  })

  test('one that has not registered, if its window is given', async () => {
    const { asked } = await found('kafka://host?consumer=new&window=1d', new Map())
    expect(asked).toMatchObject([{ consumer: 'new', dedupWindowMs: DAY }])
  })

  test('none that is unknown, which is an error', async () => {
    const { asked, findings } = await found('kafka://host?consumer=biling')
    expect(asked).toEqual([])
    expect(findings).toMatchObject([
      { severity: 'error', about: 'kafka', finding: expect.stringContaining('consumer biling') },
    ])
  })
})

test.each<readonly [string, Windows, string]>([
  [
    'amqp://host',
    TWO,
    'Which consumer reads from RabbitMQ? Add `consumer=…` to the address, one of: billing, mail.',
  ],
  ['amqp://host', new Map(), 'one of: none is registered yet.'],
  ['amqp://host?attempts=0', BILLING, '`attempts` in --broker'],
  ['amqp://host?attempts=1.5', BILLING, '`attempts` in --broker'],
  ['amqp://host?attempts=0x3', BILLING, '`attempts` in --broker'],
  ['amqp://host?attempts=3x', BILLING, '`attempts` in --broker'],
  ['amqp://host?attempts=99999999999999999', BILLING, '`attempts` in --broker'],
  ['amqp://host?window=soon', BILLING, '`window` in --broker'],
  ['amqp://host?lease=', BILLING, '`lease` in --broker'],
  ['amqp://host?deadline=5', BILLING, '`deadline` in --broker'],
])('%s is refused', async (address, windows, message) => {
  await expect(found(address, windows)).rejects.toMatchObject({
    ...{ exitCode: 2, message: expect.stringContaining(message) },
  })
})

test('one attempt is enough', async () => {
  expect((await found('amqp://host?attempts=1')).asked).toMatchObject([{ maxAttempts: 1 }])
})

test('problems are errors, and come before the warnings', async () => {
  const answer = { warnings: ['It is slow. Wait.'], problems: ['It is gone. Make it.', 'Bad'] }
  const { findings } = await found('https://host/1/q', BILLING, answer)
  const about = 'sqs'
  expect(findings).toEqual([
    { severity: 'error', about, finding: 'It is gone.', remedy: 'Make it.' },
    { severity: 'error', about, finding: 'Bad', remedy: 'Mend it, then start the consumer.' },
    { severity: 'warning', about, finding: 'It is slow.', remedy: 'Wait.' },
  ])
})

test.each([
  ['One. Two. Do three.', 'One. Two.', 'Do three.'],
  ['It is 1.5 s long. `npm install` it.', 'It is 1.5 s long.', '`npm install` it.'],
  ['All in one.', 'All in one.', 'Mend it, then start the consumer.'],
  ['', '', 'Mend it, then start the consumer.'],
])('%j ends with what to do', (text, finding, remedy) => {
  expect(splitRemedy(text)).toEqual({ finding, remedy })
})
