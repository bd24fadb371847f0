import { ConfigurationError, StoreUnavailableError } from '@onceward/core'
import { refusedByBothAddresses } from '@onceward/testing/adapter'
import { TimeoutError } from 'redis'
import { describe, expect, test } from 'vitest'
import { needsOneNode, toStartError, toStoreError } from './errors.ts'

test.each([
  'CROSSSLOT Keys in request do not hash to the same slot',
  'TRYAGAIN Multiple keys request during rehashing of slot',
  'Too many Cluster redirections. Last error: ReplyError: TRYAGAIN Multiple keys request during rehashing of slot',
  // Red when only the quoted answer counts: batches then fail by luck for as long as the slot moves.
  'Too many Cluster redirections. Last error: ReplyError: ASK 9115 127.0.0.1:6380',
  'Too many Cluster redirections. Last error: ReplyError: MOVED 9115 127.0.0.1:6380',
])('keys of one script are on several nodes: %s', (message) => {
  expect(needsOneNode(new Error(message))).toBe(true)
})

test.each([
  'CLUSTERDOWN The cluster is down',
  'LOADING Redis is loading the dataset in memory',
  'Connection is closed.',
])('no other split helps: %s', (message) => {
  expect(needsOneNode(new Error(message))).toBe(false)
})

test('a client for one server that is connected to a cluster is told what it needs', () => {
  const error = toStoreError(new Error('MOVED 866 127.0.0.1:7001'), 'claim')
  expect(error.message).toMatch(
    /another node of its cluster has the key: use a client for clusters/,
  )
})

describe('the error of a failed call', () => {
  test.each([
    ['OOM command not allowed when used memory', 'it is full: raise `maxmemory`'],
    ['ERR Error running script (call to f_1): @user_script:1: -OOM not allowed', 'it is full'],
    ['ERR Error running script (call to f_1): -READONLY You can', 'it is a replica'],
    ['NOAUTH Authentication required.', 'it requires a password: set `password` of its client'],
    ['ERR Protocol error: unauthenticated multibulk length', 'it requires a password: set'],
    ['WRONGPASS invalid username-password pair', 'the user or the password is wrong: correct them'],
    ["NOPERM this user has no permissions to run the 'evalsha' command", 'the user may not run'],
    ['ERR The user executing the script cannot run this command', 'the user may not run'],
    ['ERR ACL failure in script: User app has no permissions to run', 'the user may not run'],
    ["ERR unknown command 'EVALSHA'", 'it does not know a command'],
    ['LOADING the dataset, not -OOM', 'it is loading its data'],
    ['ERR Unknown Redis command called from script', 'it does not know a command'],
    ['Connection is closed', 'its client was closed, or was never connected: give'],
    ['The client is closed', 'its client was closed, or was never connected: give'],
    ["Connection is in monitoring mode, can't process commands", 'its client subscribes or'],
    ["ERR Replica can't interact with the keyspace", 'its client subscribes or monitors: give'],
    ['Connection in subscriber mode, only subscriber commands may be used', 'its client subs'],
    [
      "ERR Can't execute 'evalsha': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING are allowed",
      'its client subscribes or monitors: give `redisLeases()` a client of its own',
    ],
  ])('says what to do after %j', (message, remedy) => {
    const cause = new Error(message)
    const error = toStoreError(cause, 'claim')
    expect(error).toBeInstanceOf(StoreUnavailableError)
    expect(error.message).toContain(`Redis failed at claim: ${remedy}`)
    expect(error.message).toContain(` (${message}).`)
    expect(error.cause).toBe(cause)
  })

  test.each([
    ['ERR syntax error', 'ERR syntax error'],
    // A code is the first word, or the first one behind a minus.
    ['OOMPH', 'OOMPH'],
    ['not OOM', 'not OOM'],
    ['ERR nothing -OOMPH', 'ERR nothing -OOMPH'],
  ])('has the text alone of %j', (message, text) => {
    expect(toStoreError(new Error(message), 'claim').message).toBe(
      `Redis failed at claim: ${text}.`,
    )
  })

  // Red when every function names the options and the rights of redisLeases.
  test.each([
    ['redisInbox', 'OOM not allowed', 'shorten `dedupWindowMs`'],
    ['approximateDedup', 'OOM not allowed', 'shorten `windowMs`'],
    ['redisInbox', 'NOPERM no permissions', '+zrangebyscore'],
    ['approximateDedup', 'NOPERM no permissions', '+sismember'],
    ['redisInbox', 'Connection is closed', 'give `redisInbox()` a client that stays'],
    ['approximateDedup', 'Connection in subscriber mode, only', 'give `approximateDedup()` a'],
  ] as const)('of %s after %j says: %s', (user, message, remedy) => {
    const { message: text } = toStoreError(new Error(message), 'commit', user)
    expect(text).toContain(remedy)
    expect(text).not.toMatch(/redisLeases|rememberDoneMs/)
  })

  test('is the typed one, if it has one already', () => {
    const typed = new ConfigurationError('other keys')
    expect(toStoreError(typed, 'claim')).toBe(typed)
  })
})

describe('the error of a start', () => {
  test.each([
    'NOAUTH Authentication required.',
    'ERR Protocol error: unauthenticated multibulk length',
    'WRONGPASS invalid username-password pair',
    'NOPERM no permissions',
    "ERR unknown command 'EVALSHA'",
  ])('is about the settings after %j', (message) => {
    const cause = new Error(message)
    const failed = toStoreError(cause, 'start')
    const error = toStartError(failed)
    expect(error).toBeInstanceOf(ConfigurationError)
    expect(error).toMatchObject({ message: failed.message, cause })
  })

  test('stays as it is, if waiting may help or it is none of the store', () => {
    for (const error of [
      toStoreError(new Error('LOADING Redis is loading'), 'start'),
      new Error('NOPERM no permissions', { cause: new Error('NOPERM no permissions') }),
      'NOPERM',
      undefined,
    ]) {
      expect(toStartError(error)).toBe(error)
    }
  })
})

test.each([
  // Red when an AggregateError is told by its own message, which is empty.
  [refusedByBothAddresses(), 'connect ECONNREFUSED 127.0.0.1:1, connect ECONNREFUSED ::1:1'],
  // Red when its name is told, which is Error.
  [new TimeoutError(), 'TimeoutError'],
])('an error without a message of its own says what happened: %s', (error, text) => {
  expect(toStoreError(error, 'claim').message).toBe(`Redis failed at claim: ${text}.`)
})
