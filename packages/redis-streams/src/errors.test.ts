import { ODD_ERRORS } from '@onceward/testing/adapter'
import { expect, test } from 'vitest'
import { classifyError, unfitError } from './errors.ts'

test.each([
  ['NOGROUP No such key or consumer group', 'group-missing'],
  ['UNBLOCKED the stream key no longer exists', 'group-missing'],
  ['ERR Error running script (call to f_1): @user_script:3: -NOGROUP No such key', 'group-missing'],
  ["NOPERM this user has no permissions to run the 'evalsha' command", 'denied'],
  ["ERR The user executing the script can't run this command or subcommand script: f_1", 'denied'],
  ["ERR ACL failure in script: User app has no permissions to run the 'time' command", 'denied'],
  ['NOAUTH Authentication required.', 'denied'],
  ["READONLY You can't write against a read only replica. script: f_1", 'unready'],
  ['LOADING Redis is loading the dataset in memory', 'unready'],
  ['OOM command not allowed when used memory > maxmemory', 'unready'],
  ['WRONGTYPE Operation against a key holding the wrong kind of value', 'unfit'],
  ["CROSSSLOT Keys in request don't hash to the same slot", 'unfit'],
  ['Connection is closed.', 'network'],
  ['Reached the max retries per request limit (which is 20).', 'network'],
  ['The client is closed', 'network'],
  ['XREADGROUP was answered with nonsense', 'other'],
])('%s is %s', (message, kind) => {
  expect(classifyError(new Error(message)).kind).toBe(kind)
})

test('a code of the socket decides, and no value throws', () => {
  const refused = Object.assign(new Error('connect'), { code: 'ECONNREFUSED' })
  expect(classifyError(refused).kind).toBe('network')
  for (const odd of ODD_ERRORS) expect(classifyError(odd).text).toEqual(expect.any(String))
})

test('a key of another type, and keys of two slots, are told with what to do', () => {
  expect(unfitError(new Error('WRONGTYPE no'), 'orders')?.message).toMatch(
    /Give the key of a stream/,
  )
  expect(unfitError(new Error('CROSSSLOT no'), 'orders')?.message).toContain('`{orders}`')
  expect(unfitError(new Error('NOGROUP no'), 'orders')).toBeUndefined()
})
