import { ConfigurationError } from '@onceward/core'
import { afterEach, describe, expect, test, vi } from 'vitest'
import { parseBroker } from './broker-address.ts'
import { openBroker } from './brokers.ts'

const QUEUE = 'https://sqs.eu-west-1.amazonaws.com/123456789012/orders'

afterEach(() => {
  vi.useRealTimers()
})

describe('an address', () => {
  test.each([
    ['kafka://127.0.0.1:1?topic=orders', '127.0.0.1:1'],
    ['amqp://user:s3cret@127.0.0.1:1?queue=orders', '127.0.0.1:1'],
    [QUEUE, 'sqs.eu-west-1.amazonaws.com'],
  ])('%s is opened by its adapter, which is not connected yet', async (address, place) => {
    await using open = await openBroker(parseBroker(address))
    expect(open.broker.place).toContain(place)
    expect(open.broker.place).not.toContain('s3cret')
    expect(open.named).toEqual(parseBroker(address))
  })

  test.each([
    ['kafka://127.0.0.1:1?nothing=1', /nothing/],
    ['amqp://?queue=orders', /^Expected the address of RabbitMQ/],
    ['https://host', /^Expected the URL of a queue/],
  ])(
    '%s, which the adapter does not take, is a mistake of the command line',
    async (address, text) => {
      await expect(openBroker(parseBroker(address))).rejects.toMatchObject({
        ...{ exitCode: 2, message: expect.stringMatching(text) },
      })
    },
  )
})

describe('a question', () => {
  const ask = async (question: () => Promise<unknown>) => {
    await using open = await openBroker(parseBroker(QUEUE))
    return await open.ask(async (broker) => [broker === open.broker, await question()])
  }

  test('is answered by the broker', async () => {
    expect(await ask(async () => 7)).toEqual([true, 7])
  })

  test('that the adapter refuses is a mistake of the command line', async () => {
    const refused = ask(async () => {
      throw new ConfigurationError('Expected a queue.')
    })
    await expect(refused).rejects.toMatchObject({ exitCode: 2, message: 'Expected a queue.' })
  })

  test('that fails names the broker and its place', async () => {
    const cause = new Error('connection refused')
    const failed = ask(async () => {
      throw cause
    })
    const message = 'No answer from SQS at sqs.eu-west-1.amazonaws.com: connection refused'
    await expect(failed).rejects.toMatchObject({ exitCode: 3, message, cause })
  })

  test('that nobody answers is given up after 15 seconds', async () => {
    await using open = await openBroker(parseBroker(QUEUE))
    vi.useFakeTimers()
    let ended: unknown
    const asking = open
      .ask(() => new Promise(() => undefined))
      .catch((error: unknown) => {
        ended = error
      })
    await vi.advanceTimersByTimeAsync(14_999)
    expect(ended).toBeUndefined()
    await vi.advanceTimersByTimeAsync(1)
    await asking
    expect(ended).toMatchObject({
      exitCode: 3,
      message: expect.stringContaining('No answer from SQS'),
    })
  })
})

describe('closing', () => {
  const closing = async (close: () => Promise<void>) => {
    const open = await openBroker(parseBroker(QUEUE))
    Object.assign(open.broker, { [Symbol.asyncDispose]: close })
    return open[Symbol.asyncDispose]()
  }

  test('waits until the broker is closed', async () => {
    let isClosed = false
    await closing(async () => {
      await Promise.resolve()
      isClosed = true
    })
    expect(isClosed).toBe(true)
  })

  test('a broker that fails to close ends no command', async () => {
    await expect(closing(() => Promise.reject(new Error('gone')))).resolves.toBeUndefined()
  })

  test('a broker that never closes is left after two seconds', async () => {
    vi.useFakeTimers()
    let isOver = false
    const over = closing(() => new Promise(() => undefined)).then(() => {
      isOver = true
    })
    await vi.advanceTimersByTimeAsync(1_999)
    expect(isOver).toBe(false)
    await vi.advanceTimersByTimeAsync(1)
    await over
  })
})
