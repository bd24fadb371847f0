import { ConfigurationError } from '@onceward/core'
import { handMadeGuard } from '@onceward/testing/adapter'
import { describe, expect, test } from 'vitest'
import { consumeAmqp } from './consume.ts'
import { wrapAmqp } from './wrap.ts'

const { guard } = handMadeGuard()
const client = {} as never

/** Called as by a program without types. */
const FUNCTIONS: Readonly<Record<string, (options: never) => unknown>> = {
  consumeAmqp: (options) => consumeAmqp(client, guard, options),
  wrapAmqp: (options) => wrapAmqp(client, guard, options),
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
    ['queueName', 'queue'],
    ['prefetchCount', 'prefetch'],
    ['batch.sise', 'batch.size'],
    ['deadLetter.routingkey', 'deadLetter.routingKey'],
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

  // Red when it is an unknown name: that error does not say what a crash would do.
  test('refuses noAck with the reason, and not as an unknown name', async () => {
    const error = await refusalOf(name, { queue: 'orders', noAck: true })
    expect(error).toBeInstanceOf(ConfigurationError)
    expect(error).toHaveProperty('message', expect.stringMatching(/^Expected no `noAck`.*loses it/))
    const both = await refusalOf(name, { queue: 'orders', noAck: true, zzz: 1 })
    expect(both).toHaveProperty('message', expect.stringMatching(/^\S+ does not know "zzz"/))
  })

  test.each([5, null])('refuses %s as a batch and as a dead-letter target', async (value) => {
    const error = await refusalOf(name, { queue: 'orders', batch: value, deadLetter: value })
    expect(error).toBeInstanceOf(ConfigurationError)
    expect(String(error)).toContain('Expected `batch` to be an object with `size` and `lingerMs`')
    expect(String(error)).toContain('`deadLetter')
  })
})

test('a wrap refuses options that only a consumer has', () => {
  const options = { queue: 'orders', signal: AbortSignal.abort(), drainMs: 5 }
  expect(() => wrapAmqp(client, guard, options as never)).toThrow(
    /^wrapAmqp does not know "signal".*\nwrapAmqp does not know "drainMs"/,
  )
})
