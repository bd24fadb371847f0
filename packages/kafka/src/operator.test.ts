import { ConfigurationError } from '@onceward/core'
import { expect, test } from 'vitest'
import { operate } from './operator.ts'

const at = (url: string) => operate({ url, params: new URLSearchParams('topic=orders'), env: {} })

// Red when the error of the runtime comes out: 'URI malformed' says neither what nor where.
test.each(['kafka://us%er:secret@host:9092', 'kafka://user:100%@host:9092'])(
  '%s is refused, and the error says what to write',
  (url) => {
    expect(() => at(url)).toThrow(ConfigurationError)
    expect(() => at(url)).toThrow(/Write %25 for %/)
    expect(() => at(url)).not.toThrow(/secret|100/)
  },
)

test('a user and a password with escapes are read, and not shown', async () => {
  await using broker = at('kafkas://us%25er:p%40s%2Fs@host:9092')
  expect(broker.place).toBe('host:9092')
})
