import { expect, test } from 'vitest'
import { redisLeases } from './index.ts'

const SECRET = 'hunter2'
const pool = { connect: () => undefined, query: () => undefined, options: { password: SECRET } }

// Red before: a TypeError of the `in` operator, or a guard that never reached its store.
test.each<[unknown, string]>([
  [`redis://:${SECRET}@cache:6379`, 'Make a client first'],
  [pool, '`postgresLeases(pool)`'],
  [{ host: 'cache', password: SECRET }, 'Give the client itself.'],
  [undefined, 'Give the client itself.'],
])('redisLeases says what to write for another client, and shows no secret', (client, advice) => {
  let error: unknown
  try {
    redisLeases(client as never)
  } catch (thrown) {
    error = thrown
  }
  expect(error).toMatchObject({ code: 'ONCEWARD_CONFIGURATION' })
  expect(String(error)).toContain(advice)
  expect(String(error)).not.toContain(SECRET)
})
