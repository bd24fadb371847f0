import { ConfigurationError } from '@onceward/core'
import { CallTimeoutError } from '@onceward/core/adapter'
import { refusedByBothAddresses } from '@onceward/testing/adapter'
import { expect, test } from 'vitest'
import {
  CancelledError,
  classifyError,
  connectionGone,
  exchangeMissing,
  isConnectionClosed,
  queueMissing,
} from './errors.ts'

const coded = (message: string, code: unknown): Error => Object.assign(new Error(message), { code })

test.each([
  [coded("NOT_FOUND - no queue 'orders' in vhost '/'", 404), 'missing'],
  [coded("NOT_FOUND - queue 'failed to restart' not found in vhost '/'", 404), 'missing'],
  [coded('ACCESS_REFUSED', 403), 'denied'],
  [new Error('Handshake terminated by server: 403 (ACCESS-REFUSED) with message'), 'denied'],
  [coded('RESOURCE_LOCKED', 405), 'locked'],
  [coded('PRECONDITION_FAILED - unknown delivery tag 3', 406), 'refused'],
  [coded('CONNECTION_FORCED - broker forced connection closure', 320), 'network'],
  [coded('connect ECONNREFUSED', 'ECONNREFUSED'), 'network'],
  [new Error('Heartbeat timeout'), 'network'],
  [new Error('Channel ended, no reply will be forthcoming'), 'network'],
  [new Error('Unexpected close'), 'network'],
  [new CallTimeoutError('connect', 5), 'network'],
  [new CancelledError('orders'), 'cancelled'],
  [coded('INTERNAL_ERROR', 541), 'other'],
  // The name of a queue may be the words of another refusal.
  [coded("PRECONDITION_FAILED - NOT_FOUND - queue 'a' is stopped by supervisor", 406), 'refused'],
])('the error %s is classified as %s', (error, kind) => {
  expect(classifyError(error).kind).toBe(kind)
})

test.each<[number | string, string]>([
  [403, 'denied'],
  [404, 'missing'],
  [405, 'locked'],
  [406, 'refused'],
  [320, 'network'],
  ['ECONNREFUSED', 'network'],
  ['ECONNRESET', 'network'],
  ['EHOSTUNREACH', 'network'],
  ['ENETUNREACH', 'network'],
  ['ENOTFOUND', 'network'],
  ['EAI_AGAIN', 'network'],
  ['EPIPE', 'network'],
  ['ETIMEDOUT', 'network'],
])('the code %s alone says that an error is %s', (code, kind) => {
  expect(classifyError(coded('no', code))).toEqual({ kind, text: 'Error: no' })
})

// Red when the code decides: a start while the node of a queue is down said that the queue does not exist.
test.each([
  "home node 'rabbit@b' of durable queue 'orders' in vhost '/' is down or inaccessible",
  "queue 'orders' in vhost '/' has crashed and failed to restart",
  "queue 'orders' in vhost '/' process is stopped by supervisor",
  "failed to perform operation on queue 'orders' in vhost '/' due to timeout",
])('a queue that is there and cannot be used is not missing: %s', (why) => {
  const error = coded(`404 (NOT-FOUND) with message "NOT_FOUND - ${why}"`, 404)
  expect(classifyError(error).kind).toBe('unavailable')
})

test('errors that report a closed connection are recognised', () => {
  expect(isConnectionClosed(new Error('Connection closed (by client)'))).toBe(true)
  expect(isConnectionClosed(new Error('Connection closing'))).toBe(true)
  expect(isConnectionClosed(new Error('Channel closed'))).toBe(false)
  expect(isConnectionClosed('Connection closed')).toBe(false)
  // The reason of another failure, such as that of a channel.
  const reason = new Error('the channel did not open (Error: Connection closed)')
  expect(isConnectionClosed(reason)).toBe(false)
})

test.each([
  ['queue', queueMissing('deadLetter.queue', 'orders.dead'), /Declare it, or correct the name/],
  [
    'exchange',
    exchangeMissing('deadLetter.exchange', 'orders.dead'),
    /would be dropped\. Declare it/,
  ],
])('a missing %s is told with its option, its name and what to do', (what, error, remedy) => {
  expect(error).toBeInstanceOf(ConfigurationError)
  expect(error.message).toContain(`\`deadLetter.${what}\`, 'orders.dead', does not exist`)
  expect(error.message).toMatch(remedy)
})

test('the end of a connection of the user is told with its cause, if there is one, and with what to give instead', () => {
  const cause = new Error('read ECONNRESET')
  const error = connectionGone(cause)
  expect(error).toBeInstanceOf(ConfigurationError)
  expect(error.cause).toBe(cause)
  expect(error.message).toMatch(
    /is over \(Error: read ECONNRESET\).*`\(\) => amqp\.connect\(url\)`/,
  )
  expect(connectionGone(undefined).message).toContain('is over (closed)')
})

// Red when only the message of the error itself is told, which is empty: health() then says `AggregateError: `.
test('a host whose addresses all refuse is told with what failed', () => {
  expect(classifyError(refusedByBothAddresses())).toEqual({
    kind: 'network',
    text: 'AggregateError: connect ECONNREFUSED 127.0.0.1:1, connect ECONNREFUSED ::1:1',
  })
})
