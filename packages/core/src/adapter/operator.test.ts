import { expect, test } from 'vitest'
import { ConfigurationError, StoreUnavailableError } from '../model/errors.ts'
import { findingsOf, notSent, refuseParameters } from './operator.ts'

test('a check that refuses nothing answers what it warned of, and nothing of its other lines', async () => {
  const findings = await findingsOf(async (logger) => {
    logger.debug({}, 'debug')
    logger.info({}, 'info')
    logger.error({}, 'error')
    logger.warn({ finding: 'The queue has no dead-letter queue.' }, 'a finding')
    logger.warn({ reason: 'AccessDenied', fix: 'allow it' }, 'the attributes cannot be read')
    logger.warn({}, 'odd')
  })
  expect(findings).toEqual({
    problems: [],
    warnings: [
      'The queue has no dead-letter queue.',
      'The attributes cannot be read: AccessDenied. Allow it.',
      'Odd: . .',
    ],
  })
})

test('a check that refuses answers each of its problems, and what it warned of before', async () => {
  const findings = await findingsOf(async (logger) => {
    logger.warn({ finding: 'a warning' }, 'a finding')
    throw new ConfigurationError('one problem\nanother problem')
  })
  expect(findings).toEqual({
    problems: ['one problem', 'another problem'],
    warnings: ['a warning'],
  })
})

test.each([new Error('ECONNREFUSED'), new StoreUnavailableError('The database is down.')])(
  'the error of a client is no finding: %s',
  async (error) => {
    await expect(findingsOf(() => Promise.reject(error))).rejects.toBe(error)
  },
)

test('the error of a message that was not sent keeps what the broker said', () => {
  const cause = new Error('NO_ROUTE')
  const error = notSent('no queue', cause)
  expect(error).toBeInstanceOf(ConfigurationError)
  expect(error).toMatchObject({ message: 'The broker refused the message (no queue).', cause })
})

test('a parameter that has no meaning is refused by name', () => {
  const params = new URLSearchParams('region=eu-west-1&reigon=eu')
  expect(() => refuseParameters(params, ['region', 'queue'])).toThrow(
    'no parameter `reigon`. Expected one of region, queue.',
  )
  expect(() => refuseParameters(params, ['region', 'reigon'])).not.toThrow()
  expect(() => refuseParameters(new URLSearchParams(), [])).not.toThrow()
})
