import {
  ConflictError,
  DeadlineExceededError,
  InvalidPayloadError,
  type Settlement,
} from '@onceward/core'
import { describe, expect, test, vi } from 'vitest'
import { type StoredAnswer, toResult } from './answer.ts'
import { AnswerError } from './answer-error.ts'
import {
  acceptedOutcomeOf,
  type Outcome,
  outcomeOf,
  outcomeOfThrown,
  statusOnly,
} from './outcome.ts'
import { HttpProblem } from './problem.ts'

const stored: StoredAnswer = { v: 1, status: 201, headers: [], text: 'charged' }
const reply = { status: 201, headers: [], body: 'charged' }
const NOW_MS = 5_000

const outcome = (settlement: object, unanswered?: Outcome): Outcome =>
  outcomeOf(settlement as Settlement, { nowMs: NOW_MS, unanswered })

const accepted = (settlement: object): Outcome =>
  acceptedOutcomeOf(settlement as Settlement, NOW_MS)

/** Status, kind of the problem, and the headers by which clients choose their next request. */
function shownOf(given: Outcome): readonly unknown[] {
  if (given.kind === 'threw') return ['threw', given.error]
  const { body, headers, status } = given.reply
  const { type = '' } = JSON.parse(String(body)) as { type?: string }
  const of = Object.fromEntries(headers)
  return [status, type.replace('urn:onceward:', ''), of['retry-after'], of['connection']]
}

const detailOf = (given: Outcome): unknown =>
  given.kind === 'reply' && JSON.parse(String(given.reply.body)).detail

const forbidden = new HttpProblem({ status: 403, title: 'closed', type: 'closed' })
const thrown = new Error('mail server down')
const conflict = new ConflictError('other')

describe('the answer to a deferral', () => {
  test.each<readonly [object, readonly unknown[]]>([
    [{ reason: 'store-down', until: NOW_MS + 1_500 }, [503, 'unavailable', '2', undefined]],
    [{ reason: 'in-progress', until: NOW_MS + 2_000 }, [409, 'in-flight', '2', undefined]],
    [{ reason: 'not-due', until: NOW_MS - 9_000 }, [409, 'in-flight', '1', undefined]],
    // A guard inside of the handler has thrown it: the key of this request was used for nothing else.
    [{ reason: 'failed', error: conflict }, ['threw', conflict]],
    [{ reason: 'failed', error: forbidden }, [403, 'closed', undefined, undefined]],
    [
      { reason: 'failed', error: new DeadlineExceededError('late') },
      [503, 'timed-out', '1', undefined],
    ],
    [{ reason: 'failed', error: thrown }, ['threw', thrown]],
    [
      { reason: 'failed', cause: 'handler-failed' },
      ['threw', new Error('The request was deferred: handler-failed.')],
    ],
  ])('%o', (settlement, expected) => {
    expect(shownOf(outcome({ kind: 'defer', until: NOW_MS, ...settlement }))).toEqual(expected)
  })
})

describe('the answer to a dead letter', () => {
  test.each<readonly [string, unknown, number, string]>([
    ['invalid-payload', undefined, 400, 'invalid-body'],
    ['invalid-payload', forbidden, 403, 'closed'],
    ['invalid-payload', new InvalidPayloadError('no', { cause: forbidden }), 403, 'closed'],
    ['missing-event-key', undefined, 400, 'key-missing'],
    ['fingerprint-mismatch', undefined, 422, 'key-reused'],
    ['takeover', undefined, 500, 'outcome-unknown'],
    ['fatal', thrown, 500, 'failed'],
    ['attempts-spent', thrown, 500, 'failed'],
    ['no-verdict', undefined, 500, 'failed'],
  ])('%s, %s: %i %s', (reason, error, status, kind) => {
    expect(shownOf(outcome({ kind: 'dead-letter', reason, error })).slice(0, 2)).toEqual([
      status,
      kind,
    ])
  })

  const own = new InvalidPayloadError('not JSON')
  test.each<readonly [unknown, string | undefined]>([
    [own, 'not JSON'],
    [new InvalidPayloadError('the body', { cause: own }), 'the body'],
    [new InvalidPayloadError('secret', { cause: thrown }), undefined],
    [thrown, undefined],
  ])('shows only words of the guard about a body: %s', (error, detail) => {
    expect(detailOf(outcome({ kind: 'dead-letter', reason: 'invalid-payload', error }))).toBe(
      detail,
    )
  })
})

test.each<readonly [string, readonly unknown[]]>([
  ['deadline', [503, 'timed-out', '1', undefined]],
  ['closing', [503, 'unavailable', '1', 'close']],
  ['lease-lost', [503, 'unavailable', '1', undefined]],
  ['commit-unknown', [503, 'unavailable', '1', undefined]],
])('the answer to a run that was abandoned: %s', (reason, expected) => {
  expect(shownOf(outcome({ kind: 'abandon', reason }))).toEqual(expected)
})

describe('the answer to what is done', () => {
  const whole = { ...reply, headers: [['set-cookie', 'a=1'] as const] }
  const result = toResult({ stored, reply: whole })
  const replayed = { ...reply, headers: [['idempotency-replayed', 'true']] }

  test.each<readonly [string, object, unknown]>([
    ['processed here: the whole', { by: 'processed', result }, whole],
    ['processed elsewhere: the stored part', { by: 'processed', result: stored }, reply],
    ['a duplicate of a run here', { by: 'duplicate', result }, replayed],
    ['a duplicate', { by: 'duplicate', result: stored }, replayed],
  ])('%s', (_what, settlement, expected) => {
    expect(outcome({ kind: 'ack', ...settlement })).toEqual({ kind: 'reply', reply: expected })
  })

  test('the whole answer is not stored', () => {
    expect(JSON.stringify(result)).toBe(JSON.stringify(stored))
  })

  test('is the one for events without an answer, else a problem', () => {
    const settlement = { kind: 'ack', by: 'duplicate', result: undefined }
    const nothing = statusOnly(200)
    expect(outcome(settlement, nothing)).toBe(nothing)
    expect(shownOf(outcome(settlement))).toEqual([500, 'answer-lost', undefined, undefined])
  })

  test('tells a client that used its key again what to do', () => {
    const conflict = outcome({ kind: 'ack', by: 'conflict' })
    expect(shownOf(conflict).slice(0, 2)).toEqual([422, 'key-reused'])
    expect(detailOf(conflict)).toMatch(/Use a new key/)
  })

  // An error with its stack and its JSON takes a tenth of the time of a request.
  test('makes a problem only for a request that gets it', () => {
    const stringify = vi.spyOn(JSON, 'stringify')
    outcome({ kind: 'ack', by: 'processed', result })
    expect(stringify).not.toHaveBeenCalled()
    outcome({ kind: 'ack', by: 'processed', result: undefined })
    expect(stringify).toHaveBeenCalledOnce()
    stringify.mockRestore()
  })
})

describe('the answer to a delivery that runs later', () => {
  test('is 202 without a body, also to duplicates', () => {
    for (const by of ['parked', 'duplicate', 'processed']) {
      expect(accepted({ kind: 'ack', by })).toEqual({
        kind: 'reply',
        reply: { status: 202, headers: [], body: new Uint8Array() },
      })
    }
  })

  test.each<readonly [object, number, string]>([
    [{ kind: 'ack', by: 'conflict' }, 422, 'key-reused'],
    [{ kind: 'defer', cause: 'not-stored', reason: 'failed' }, 413, 'body-too-large'],
    [{ kind: 'defer', cause: 'breaker-open', reason: 'store-down' }, 503, 'unavailable'],
    [{ kind: 'dead-letter', reason: 'invalid-payload' }, 400, 'invalid-body'],
  ])('is another one for what was not accepted: %o', (settlement, status, kind) => {
    const shown = shownOf(accepted({ until: NOW_MS + 1_500, ...settlement }))
    expect(shown[2]).toBe(status === 503 ? '2' : undefined)
    expect(shown.slice(0, 2)).toEqual([status, kind])
  })
})

describe('what is thrown around the handler', () => {
  test('is the answer if it is a problem that can be sent', () => {
    expect(shownOf(outcomeOfThrown(forbidden)).slice(0, 2)).toEqual([403, 'closed'])
    const odd = new HttpProblem({ status: 403, title: 'x', headers: { 'x-a': 'a\r\nb: c' } })
    expect(outcomeOfThrown(odd)).toEqual({ kind: 'threw', error: expect.any(AnswerError) })
  })
})
