import { ConfigurationError, RetryableError, StoreUnavailableError } from '@onceward/core'
import { messageOf } from '@onceward/core/adapter'
import { describe, expect, it } from 'vitest'
import { diagnose, isConnectionLoss, sqlState, toStartError, toStoreError } from './errors.ts'

const coded = (code: string): Error => Object.assign(new Error(code), { code })

describe('diagnose', () => {
  it.each(['40001', '40P01'])('diagnoses %s as a lost race', (code) => {
    expect(diagnose(coded(code))).toBe('serialization')
  })

  it.each([
    ...['08006', '08P01', '57P01', '57P02', '57P03', '53100', '53200', '53300', '58030', '25006'],
    ...['25P03', '28P01', '3D000'],
    ...['ECONNREFUSED', 'ECONNRESET', 'EPIPE', 'ETIMEDOUT', 'ENOTFOUND', 'CONNECTION_ENDED'],
    ...['EHOSTUNREACH', 'EMFILE', 'ERR_STREAM_DESTROYED', 'ERR_SOCKET_CLOSED'],
  ])('diagnoses %s as a failure of the store', (code) => {
    expect(diagnose(coded(code))).toBe('store')
  })

  it.each([
    'Connection terminated unexpectedly',
    'Connection terminated due to connection timeout',
    'timeout exceeded when trying to connect',
    'Cannot use a pool after calling end on the pool',
    'Client has encountered a connection error and is not queryable',
    'driver has already been destroyed',
  ])('diagnoses "%s" as a failure of the store', (message) => {
    expect(diagnose(new Error(message))).toBe('store')
  })

  it.each([
    '23505',
    '22012',
    '25P02',
    '57014',
    '55P03',
    '53400',
    '54001',
    'XX000',
    'ERR_INVALID_ARG_TYPE',
  ])('diagnoses %s as a failure of the event', (code) => {
    expect(diagnose(coded(code))).toBe('other')
  })

  it('looks into wrappers and into AggregateErrors of several addresses', () => {
    expect(diagnose(new Error('no', { cause: coded('40001') }))).toBe('serialization')
    const both = new AggregateError([coded('ECONNREFUSED'), coded('ECONNREFUSED')])
    expect(diagnose(both)).toBe('store')
    expect(messageOf(both)).toBe('ECONNREFUSED, ECONNREFUSED')
  })

  it('ends on circular causes', () => {
    const error = new Error('round') as Error & { cause: unknown }
    error.cause = error
    expect(diagnose(error)).toBe('other')
  })
})

describe('the SQLSTATE of an error', () => {
  it("is undefined for Node's codes that look like one", () => {
    expect(sqlState(coded('EPIPE'))).toBeUndefined()
    expect(isConnectionLoss(coded('EPIPE'))).toBe(true)
  })

  it('is found as the cause of our own errors', () => {
    expect(sqlState(toStoreError(coded('55P03'), 'testing'))).toBe('55P03')
  })
})

describe('toStoreError', () => {
  it.each(['3F000', '42P01', '42703'])('says for %s that tables are missing', (code) => {
    const error = toStoreError(coded(code), 'testing')
    expect(error).toBeInstanceOf(ConfigurationError)
    expect(error.message).toContain('migrate')
  })

  it('says that rights are missing', () => {
    const error = toStoreError(coded('42501'), 'testing')
    expect(error).toBeInstanceOf(ConfigurationError)
    expect(error.message).toContain('docs/least-privilege.sql')
  })

  it('wraps any other error in StoreUnavailableError, with its cause', () => {
    const cause = coded('53100')
    const error = toStoreError(cause, 'testing')
    expect(error).toBeInstanceOf(StoreUnavailableError)
    expect(error).toMatchObject({ cause, message: expect.stringContaining('53100') })
  })

  // Red when it counts as an outage: the breaker would turn all events away, and nobody would hear of the defect.
  it.each(['22003', '22P05', '23505', '23514'])('is a defect to report for %s', (code) => {
    const error = toStoreError(coded(code), 'testing')
    expect(error).not.toBeInstanceOf(StoreUnavailableError)
    expect(error).toMatchObject({ message: expect.stringMatching(/testing.*report/) })
    expect(sqlState(error)).toBe(code)
  })

  it('is an outage for a code that only has the digits of a defect', () => {
    expect(toStoreError(coded('42622'), 'testing')).toBeInstanceOf(StoreUnavailableError)
  })

  it('returns an error of onceward unchanged', () => {
    const error = new RetryableError('mine')
    expect(toStoreError(error, 'testing')).toBe(error)
  })
})

// Red when an operator must guess why nothing is processed.
describe('a server that can never serve an inbox', () => {
  it('is named where PgBouncer is in statement mode', () => {
    const error = Object.assign(
      new Error('transaction blocks not allowed in statement pooling mode'),
      { code: '08P01' },
    )
    const typed = toStoreError(error, 'claiming')
    expect(typed).toBeInstanceOf(ConfigurationError)
    expect(typed.message).toContain('pool_mode')
  })

  it.each(['0A000', '25006'])('is named where it is a standby (%s)', (code) => {
    const typed = toStoreError(coded(code), 'claiming')
    expect(typed).toBeInstanceOf(StoreUnavailableError)
    expect(typed.message).toContain('connect to the primary')
  })
})

// Red when a worker waits for ever for what no waiting repairs.
describe('the error of a start', () => {
  const failed = (message: string, code?: string): Error =>
    toStoreError(Object.assign(new Error(message), code === undefined ? {} : { code }), 'opening')

  it.each([
    [
      '3D000',
      'database "x" does not exist',
      'create it, or correct its name in `connectionString`',
    ],
    ['28P01', 'password authentication failed for user "x"', 'correct the user and the password'],
    ['28000', 'role "x" does not exist', 'correct the user and the password'],
    [
      '28000',
      'no PostgreSQL user name specified in startup packet',
      'Is the variable that it is read from, such as DATABASE_URL, empty?',
    ],
    [
      undefined,
      'SASL: SCRAM-SERVER-FIRST-MESSAGE: client password must be a string',
      'set `connectionString` of the pool',
    ],
  ])('names the setting that no waiting repairs: %s', (code, message, remedy) => {
    const error = toStartError(failed(message, code))
    expect(error).toBeInstanceOf(ConfigurationError)
    expect((error as Error).message).toContain(message)
    expect((error as Error).message).toContain(remedy)
  })

  it.each([['57P03'], ['53300'], ['ECONNREFUSED']])('stays an outage after %s', (code) => {
    const error = failed('no', code)
    expect(toStartError(error)).toBe(error)
  })
})
