import { ConfigurationError } from '@onceward/core'
import { handMadeGuard } from '@onceward/testing/adapter'
import { describe, expect, test } from 'vitest'
import { consumeKafka } from './consume.ts'
import { wrapKafka } from './wrap.ts'

const { guard } = handMadeGuard()
const client = {} as never

/** Called as by a program without types. */
const FUNCTIONS: Readonly<Record<string, (options: never) => unknown>> = {
  consumeKafka: (options) => consumeKafka(client, guard, options),
  wrapKafka: (options) => wrapKafka(client, guard, options),
}

/** Only `consumeKafka` subscribes. */
const topicsOf = (name: string): object => (name === 'wrapKafka' ? {} : { topics: ['orders'] })

async function refusalOf(name: string, options: unknown): Promise<unknown> {
  try {
    return await FUNCTIONS[name]?.(options as never)
  } catch (error) {
    return error
  }
}

describe.each(Object.keys(FUNCTIONS))('%s', (name) => {
  test.each([
    ['deadletter', 'deadLetter'],
    ['partitionsConcurrently', 'partitionsConsumedConcurrently'],
    ['batch.sise', 'batch.size'],
    ['deadLetter.topics', 'deadLetter.topic'],
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
    const error = await refusalOf(name, { ...topicsOf(name), batch: value, deadLetter: value })
    expect(error).toBeInstanceOf(ConfigurationError)
    expect(String(error)).toContain('Expected `batch` to be an object with `size` and `lingerMs`')
    expect(String(error)).toContain('`deadLetter')
  })
})

test('a wrap refuses options that only a consumer has', () => {
  const options = { signal: AbortSignal.abort(), drainMs: 5 }
  expect(() => wrapKafka(client, guard, options as never)).toThrow(
    /^wrapKafka does not know "signal".*\nwrapKafka does not know "drainMs"/,
  )
})
