import { ConfigurationError } from '@onceward/core'
import { handMadeGuard } from '@onceward/testing/adapter'
import { describe, expect, test } from 'vitest'
import { consumeSqs } from './consume.ts'
import { wrapSqs } from './wrap.ts'

const { guard } = handMadeGuard()
const client = {} as never

/** Called as by a program without types. */
const FUNCTIONS: Readonly<Record<string, (options: never) => unknown>> = {
  consumeSqs: (options) => consumeSqs(client, guard, options),
  wrapSqs: (options) => wrapSqs(client, guard, options),
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
    ['queueURL', 'queueUrl'],
    ['visibilityTimeout', 'visibilityMs'],
    ['batch.sise', 'batch.size'],
    ['deadLetter.queueURL', 'deadLetter.queueUrl'],
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

  test.each([5, null])('refuses %s as a batch and as a dead-letter target', async (value) => {
    const error = await refusalOf(name, {
      queueUrl: 'https://sqs.test/1/orders',
      batch: value,
      deadLetter: value,
    })
    expect(error).toBeInstanceOf(ConfigurationError)
    expect(String(error)).toContain('Expected `batch` to be an object with `size` and `lingerMs`')
    expect(String(error)).toContain('`deadLetter')
  })
})

test('a wrap refuses options that only a consumer has', () => {
  const options = { queueUrl: 'https://sqs.test/1/orders', signal: AbortSignal.abort(), drainMs: 5 }
  expect(() => wrapSqs(client, guard, options as never)).toThrow(
    /^wrapSqs does not know "signal".*\nwrapSqs does not know "drainMs"/,
  )
})
