import type { OperatedBroker } from '@onceward/core/adapter'
import { expect, test } from 'vitest'
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

test.each([
  ['One. Two. Do three.', 'One. Two.', 'Do three.'],
  ['It is 1.5 s long. `npm install` it.', 'It is 1.5 s long.', '`npm install` it.'],
  ['All in one.', 'All in one.', 'Fix it, then start the consumer.'],
  ['', '', 'Fix it, then start the consumer.'],
])('%j ends with what to do', (text, finding, remedy) => {
  expect(splitRemedy(text)).toEqual({ finding, remedy })
})
