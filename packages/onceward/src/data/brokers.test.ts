import { afterEach, describe, expect, test, vi } from 'vitest'
import { parseBroker } from './broker-address.ts'
import { openBroker } from './brokers.ts'

const QUEUE = 'https://sqs.eu-west-1.amazonaws.com/123456789012/orders'

afterEach(() => {
  vi.useRealTimers()
})

describe('a question', () => {
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
