import { CallTimeoutError } from '@onceward/core/adapter'
import { refusedByBothAddresses } from '@onceward/testing/adapter'
import { expect, test } from 'vitest'
import { BACKOFF, CancelledError, classifyError, isConnectionClosed } from './errors.ts'

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
  ['text', 'other'],
  [undefined, 'other'],
])('the error %s is classified as %s', (error, kind) => {
  expect(classifyError(error).kind).toBe(kind)
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

test('every back-off is bounded, and starts well below its bound', () => {
  for (const { baseMs, maxMs } of Object.values(BACKOFF)) {
    expect(baseMs).toBeLessThanOrEqual(1_000)
    expect(maxMs).toBeLessThanOrEqual(30_000)
  }
})

test('errors that report a closed connection are recognised', () => {
  expect(isConnectionClosed(new Error('Connection closed (by client)'))).toBe(true)
  expect(isConnectionClosed(new Error('Connection closing'))).toBe(true)
  expect(isConnectionClosed(new Error('Channel closed'))).toBe(false)
  expect(isConnectionClosed('Connection closed')).toBe(false)
})

// Red when only the message of the error itself is told, which is empty: health() then says `AggregateError: `.
test('a host whose addresses all refuse is told with what failed', () => {
  expect(classifyError(refusedByBothAddresses())).toEqual({
    kind: 'network',
    text: 'AggregateError: connect ECONNREFUSED 127.0.0.1:1, connect ECONNREFUSED ::1:1',
  })
})
