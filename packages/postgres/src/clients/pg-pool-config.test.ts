import pg from 'pg'
import { describe, expect, it } from 'vitest'
import { poolConfig } from './pg-pool-config.ts'

describe('what pgInbox is given', () => {
  it.each([
    ['settings', { connectionString: 'postgres://db' }],
    ['no settings', {}],
    ['settings without a prototype', Object.assign(Object.create(null), { max: 3 })],
  ])('is taken for a pool of its own where it is %s', (_, value) => {
    expect(poolConfig(value)).toBe(value)
  })

  it.each<[string, unknown]>([
    ...['connect', 'query', 'getExecutor', 'evalsha', 'evalSha', 'open', 'claim', 'then'].map(
      (name): [string, unknown] => [`has ${name}()`, { [name]: () => undefined }],
    ),
    ['is a text', 'postgres://db'],
    ['is null', null],
    ['is undefined', undefined],
    ['is a function', () => undefined],
    ['is a list', []],
    ['is a pool', new pg.Pool()],
    ['is of a class', new URL('postgres://db')],
  ])('is no settings where it %s', (_, value) => {
    expect(poolConfig(value)).toBeUndefined()
  })
})
