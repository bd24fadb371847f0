import { ConfigurationError } from '@onceward/core'
import { afterEach, describe, expect, test, vi } from 'vitest'
import { EXIT } from './exit-codes.ts'
import { toFailure, toShownFailure, usage, withoutSecrets } from './failure.ts'

afterEach(() => {
  vi.unstubAllEnvs()
})

test.each([
  ['postgres://alice:s3cret@host/db', 'password s3cret is wrong', 'password *** is wrong'],
  ['postgres://alice:p%40ss@host/db', 'p@ss and p%40ss', '*** and ***'],
  ['postgres://host/db?user=a&password=s3cret&ssl=true', 's3cret', '***'],
  ['redis://:hunter2@host', 'AUTH hunter2', 'AUTH ***'],
  ['postgres://alice:p@ss@host/db', 'password p@ss', 'password ***'],
  ['postgres://alice:s3cret@host/db?from=a@b', 'password s3cret', 'password ***'],
  ['postgres://alice:50%off@host/db', 'password 50%off', 'password ***'],
  // One letter would be hidden in every word.
  ['postgres://alice:b@host/db', 'bob is blocked', 'bob is blocked'],
  ['postgres://alice@host/db', 'alice at host', 'alice at host'],
])('the password of %s is never repeated', (url, text, shown) => {
  expect(withoutSecrets(text, [url])).toBe(shown)
})

test.each(['KAFKA_PASSWORD', 'AMQP_PASSWORD', 'AWS_SECRET_ACCESS_KEY', 'AWS_SESSION_TOKEN'])(
  'the secret of %s is never repeated',
  (name) => {
    vi.stubEnv(name, 's3cret')
    expect(withoutSecrets('s3cret is wrong', [])).toBe('*** is wrong')
    vi.stubEnv(name, '')
    expect(withoutSecrets('s3cret is wrong', [])).toBe('s3cret is wrong')
  },
)

const withCode = (message: string, code: string) => Object.assign(new Error(message), { code })

describe('a failure', () => {
  test('is taken as it is', () => {
    const failure = usage('Give a key.')
    expect(toFailure(failure)).toBe(failure)
    expect(failure.exitCode).toBe(EXIT.usage)
  })

  test.each<readonly [unknown, string]>([
    [
      withCode('no relation', '42P01'),
      'Tables of onceward are missing while reading (no relation): run `npx onceward migrate`.',
    ],
    [withCode('no answer', 'ECONNREFUSED'), 'PostgreSQL failed while reading: no answer.'],
    [new ConfigurationError('Give a pool.'), 'Give a pool.'],
    [new Error('a defect'), 'a defect'],
    ['a text', 'a text'],
    [null, 'null'],
    [{ code: '42P01', toString: () => 'a thing' }, 'a thing'],
  ])('of %s says %s', (error, message) => {
    const failure = toFailure(error, 'reading')
    expect(failure).toMatchObject({ message, exitCode: EXIT.failed })
    expect(failure.cause).toBe(error)
  })

  test('says what was done, if nobody names it: running the command', () => {
    expect(toFailure(withCode('no answer', 'ECONNREFUSED')).message).toBe(
      'PostgreSQL failed while running the command: no answer.',
    )
  })

  test('that is shown repeats no password of the command line or of DATABASE_URL', () => {
    vi.stubEnv('DATABASE_URL', 'postgres://alice:first@host/db')
    const { argv } = process
    process.argv = [...argv, '--redis', 'redis://:second@host']
    try {
      const error = usage('first and second are wrong')
      const failure = toShownFailure(error)
      expect(failure).toMatchObject({ message: '*** and *** are wrong', exitCode: EXIT.usage })
      expect(failure.cause).toBe(error)
    } finally {
      process.argv = argv
    }
  })

  test('that is shown without DATABASE_URL says what it said', () => {
    vi.stubEnv('DATABASE_URL', undefined)
    expect(toShownFailure(new Error('a defect')).message).toBe('a defect')
  })
})
