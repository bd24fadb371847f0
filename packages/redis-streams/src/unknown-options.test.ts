import { ConfigurationError } from '@onceward/core'
import { handMadeGuard } from '@onceward/testing/adapter'
import { describe, expect, test } from 'vitest'
import { consumeStream } from './consume.ts'
import { wrapStream } from './wrap.ts'

const { guard } = handMadeGuard()
const client = {} as never

/** Called as by a program without types. */
const FUNCTIONS: Readonly<Record<string, (options: never) => unknown>> = {
  consumeStream: (options) => consumeStream(client, guard, options),
  wrapStream: (options) => wrapStream(client, guard, options),
}

async function refusalOf(name: string, options: unknown): Promise<unknown> {
  try {
    return await FUNCTIONS[name]?.(options as never)
  } catch (error) {
    return error
  }
}

describe.each(Object.keys(FUNCTIONS))('%s', (name) => {
  test.each([
    ['streams', 'stream'],
    ['claimIdle', 'claimIdleMs'],
    ['consumer', 'consumerName'],
    ['batch.sise', 'batch.size'],
    ['deadLetter.streem', 'deadLetter.stream'],
  ])('refuses the name %s and suggests %s', async (unknown, meant) => {
    const [group, field] = unknown.split('.')
    const options = field === undefined ? { [unknown]: 1 } : { [group ?? '']: { [field]: 1 } }
    const error = await refusalOf(name, options)
    expect(error).toBeInstanceOf(ConfigurationError)
    expect(error).toHaveProperty(
      'message',
      `${name} does not know "${unknown}", did you mean "${meant}"?`,
    )
  })

  // Red before, for each: a TypeError of each call would look like a server that is down.
  test.each<[string, unknown]>([
    ['a URL', 'redis://127.0.0.1'],
    [
      'a pool, which makes no connection for a receive that waits',
      { sendCommand: () => undefined },
    ],
    ['nothing', undefined],
  ])('refuses %s instead of a client', async (_, other) => {
    const options = { stream: 'orders', consumerName: 'one' }
    const start = async (): Promise<unknown> =>
      name === 'wrapStream'
        ? wrapStream(other as never, guard, options)
        : consumeStream(other as never, guard, options)
    await expect(start()).rejects.toMatchObject({
      code: 'ONCEWARD_CONFIGURATION',
      message: expect.stringMatching(new RegExp(`^Expected ${name} to get a client of ioredis`)),
    })
  })
})

test('a wrap must be told the name with which its loop reads', () => {
  expect(() => wrapStream(client, guard, { stream: 'orders' } as never)).toThrow(
    /`consumerName` to be the name with which your own loop reads/,
  )
})
