import { describe, expect, test } from 'vitest'
import { noop, silent } from '../../fixtures/inbox.ts'
import { event, ownerToken, setUp } from '../../fixtures/leased.ts'
import {
  ConflictError,
  FatalError,
  LeaseLostError,
  StoreUnavailableError,
} from '../../model/errors.ts'

const error = new Error('why')
const turn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve))

const failed = { kind: 'failed', attempt: 2, delayMs: 0, error, cause: 'handler-failed' }
const abandoned = { kind: 'abandoned', stillRunning: true }

describe('an event that was not acquired does not run', () => {
  test('and has the outcome that the store gave', async () => {
    const { outcomeOf, attempts } = setUp()
    const outcome = { kind: 'not-due', delayMs: 5, cause: 'not-due' } as const
    expect(await outcomeOf({ kind: 'outcome', outcome })).toEqual(outcome)
    expect(attempts).toEqual([])
  })

  test('and a conflict follows the policy', async () => {
    const { outcomeOf, attempts } = setUp(undefined, { onConflict: 'ack' })
    const conflict = { kind: 'conflict', policy: 'ack', error: expect.any(ConflictError) }
    expect(await outcomeOf({ kind: 'conflict' })).toEqual(conflict)
    expect(attempts).toEqual([])
  })
})

test('a run has the attempt of its lease, and its result is stored before the settlement', async () => {
  const kit = setUp(() => {
    kit.clock.advance(40)
    return 'sent'
  })
  expect(await kit.run()).toEqual({
    outcome: { kind: 'processed', attempt: 2, result: 'sent' },
    handlerMs: 40,
    isDecided: true,
  })
  expect(kit.attempts).toEqual([2])
  expect(kit.completed).toEqual([[[{ id: event.id, ownerToken, result: 'sent' }], 5_000]])
})

test('the log lines of a handler have the attempt of its lease', async () => {
  const lines: unknown[] = []
  const logger = { ...silent, info: (fields: object) => void lines.push(fields) }
  const { run } = setUp((_, context) => context.logger.info({}, 'sending'), { logger })
  await run()
  expect(lines).toEqual([{ consumer: 'mailing', eventId: event.id, attempt: 2 }])
})

test('a result that cannot be stored is a dead letter, and nothing is stored', async () => {
  const { run, completed } = setUp(() => 'x'.repeat(65_536))
  expect(await run()).toMatchObject({ outcome: { kind: 'dead', reason: 'fatal', attempt: 2 } })
  expect(completed).toEqual([])
})

test.each([
  ['an error', undefined, failed],
  ['an error on the last attempt', { attempts: 2 }, { kind: 'dead', reason: 'attempts-spent' }],
])('%s is a verdict', async (_, retry, outcome) => {
  const given = retry === undefined ? {} : { retry }
  const { run, completed } = setUp(() => Promise.reject(error), given)
  expect(await run()).toMatchObject({ outcome: { ...outcome, attempt: 2, error } })
  expect(completed).toEqual([])
})

test('a fatal error dead-letters the event at once', async () => {
  const fatal = new FatalError('no such address')
  const { run } = setUp(() => Promise.reject(fatal))
  const dead = { kind: 'dead', reason: 'fatal', attempt: 2, error: fatal }
  expect(await run()).toMatchObject({ outcome: dead })
})

describe('an interrupted handler', () => {
  const hangs = () => new Promise<never>(noop)

  test('has failed at its deadline', async () => {
    const { run, clock } = setUp(hangs)
    const running = run()
    await turn()
    clock.advance(10_000)
    const error = { code: 'ONCEWARD_DEADLINE_EXCEEDED' }
    const outcome = { kind: 'failed', attempt: 2, error }
    expect(await running).toMatchObject({ outcome })
  })

  test('still runs after its lease is lost, so nothing is released', async () => {
    const { run, lost } = setUp(hangs)
    const running = run()
    await turn()
    lost.abort()
    const outcome = { ...abandoned, reason: 'lease-lost', error: expect.any(LeaseLostError) }
    expect(await running).toMatchObject({ outcome })
  })

  test('still runs after a drain, unless it ended', async () => {
    const one = setUp(hangs)
    const running = one.run()
    await turn()
    one.drain.abort()
    one.clock.advance(2_000)
    expect((await running).outcome).toEqual({ ...abandoned, reason: 'closing' })
    const other = setUp(
      (_, { signal }) =>
        new Promise((__, reject) => {
          signal.addEventListener('abort', () => reject(error))
        }),
    )
    const ending = other.run()
    await turn()
    other.drain.abort()
    const ended = { kind: 'abandoned', reason: 'closing', stillRunning: undefined }
    expect((await ending).outcome).toEqual(ended)
  })
})

describe('a result that the store does not accept', () => {
  const down = new StoreUnavailableError('down')
  const lost = { ...abandoned, reason: 'lease-lost' }

  test('is sent three times after outages', async () => {
    const taken = setUp(undefined, {}, [down, down, 'held'])
    expect(await taken.run()).toMatchObject({ outcome: { kind: 'processed', result: 'sent' } })
    expect(taken.completed).toHaveLength(3)
    const given = setUp(undefined, {}, [down, down, down, 'held'])
    expect((await given.run()).outcome).toEqual({ ...lost, error: down })
    expect(given.completed).toHaveLength(3)
  })

  test('is sent once after any other error', async () => {
    const { run, completed } = setUp(undefined, {}, [error, 'held'])
    expect((await run()).outcome).toEqual({ ...lost, error })
    expect(completed).toHaveLength(1)
  })

  test('is not settled if another owner has the lease: the next owner decides', async () => {
    const { run, completed } = setUp(undefined, {}, ['lost', 'held'])
    expect((await run()).outcome).toEqual({ ...lost, error: expect.any(LeaseLostError) })
    expect(completed).toHaveLength(1)
  })
})

describe('a takeover', () => {
  const dead = { outcome: { kind: 'dead', reason: 'takeover', attempt: 2 }, isDecided: true }

  test('is dead-lettered by policy', async () => {
    const { run, attempts, completed } = setUp(undefined, { onTakeover: 'dead-letter' })
    expect(await run(true)).toEqual({ ...dead, handlerMs: 0 })
    expect([attempts, completed]).toEqual([[], []])
  })

  test('is retried by policy', async () => {
    const { run, attempts } = setUp(undefined, { onTakeover: 'retry' })
    expect(await run(true)).toMatchObject({ outcome: { kind: 'processed' }, isDecided: true })
    expect(attempts).toEqual([2])
  })

  test('follows the answer of the user function, which gets the handler context', async () => {
    const asked: unknown[] = []
    const found = setUp(undefined, {
      onTakeover: ({ attempt, key }, { tx, signal, deadlineAt, logger }) => {
        asked.push(attempt, key, tx, signal.aborted, deadlineAt.getTime(), Object.keys(logger))
        return { kind: 'done', result: 'was sent' }
      },
    })
    const processed = { kind: 'processed', attempt: 2, result: 'was sent' }
    expect(await found.run(true)).toMatchObject({ outcome: processed, isDecided: true })
    expect(found.attempts).toEqual([])
    expect(asked).toEqual([2, event.key, undefined, false, 1_010_000, Object.keys(silent)])
    const lost = setUp(undefined, { onTakeover: async () => ({ kind: 'dead-letter' }) })
    expect(await lost.run(true)).toMatchObject(dead)
    const open = setUp(undefined, { onTakeover: async () => ({ kind: 'retry' }) })
    expect(await open.run(true)).toMatchObject({ outcome: { kind: 'processed', result: 'sent' } })
  })

  test('stays undecided if the user function fails, and the handler does not run', async () => {
    const { run, attempts } = setUp(undefined, { onTakeover: () => Promise.reject(error) })
    expect(await run(true)).toMatchObject({ outcome: failed, isDecided: false })
    expect(attempts).toEqual([])
  })

  test('whose found result cannot be stored is a dead letter, and nothing is stored', async () => {
    const onTakeover = (() => ({ kind: 'done', result: Symbol('a') })) as unknown as () => {
      kind: 'retry'
    }
    const { run, attempts, completed } = setUp(undefined, { onTakeover })
    const outcome = { kind: 'dead', reason: 'fatal', attempt: 2 }
    expect(await run(true)).toMatchObject({ outcome, isDecided: false })
    expect([attempts, completed]).toEqual([[], []])
  })

  // Red when an answer after the deadline still runs the handler: another process may have asked meanwhile.
  test('stays undecided if the user function answers too late, and the handler does not run', async () => {
    const gate = Promise.withResolvers<{ kind: 'retry' }>()
    const { run, attempts, clock } = setUp(undefined, { onTakeover: () => gate.promise })
    const running = run(true)
    await turn()
    clock.advance(10_000)
    expect(await running).toMatchObject({ outcome: { kind: 'failed' }, isDecided: false })
    gate.resolve({ kind: 'retry' })
    await turn()
    expect(attempts).toEqual([])
  })

  test('needs an earlier owner: the first owner does not call onTakeover', async () => {
    let asked = 0
    const onTakeover = () => {
      asked += 1
      return { kind: 'dead-letter' } as const
    }
    expect(await setUp(undefined, { onTakeover }).run()).toMatchObject({
      outcome: { kind: 'processed' },
    })
    expect(asked).toBe(0)
  })
})

describe('without a lease', () => {
  test('an event runs, and nothing is stored', async () => {
    const kit = setUp(() => {
      kit.clock.advance(40)
      return 'sent'
    })
    expect(await kit.runUnleased()).toEqual({
      outcome: { kind: 'unguarded', result: 'sent' },
      handlerMs: 40,
    })
    expect([kit.attempts, kit.completed]).toEqual([[1], []])
  })

  test('the broker counts the attempts', async () => {
    const { runUnleased, attempts } = setUp(() => Promise.reject(error))
    const first = { ...failed, attempt: 1 }
    expect((await runUnleased()).outcome).toEqual(first)
    expect((await runUnleased(2)).outcome).toEqual({ ...first, attempt: 2 })
    const spent = { kind: 'dead', reason: 'attempts-spent', attempt: 3, error }
    expect((await runUnleased(3)).outcome).toEqual(spent)
    expect(attempts).toEqual([1, 2, 3])
  })

  test('a result that cannot be stored is a dead letter, as with a lease', async () => {
    const { runUnleased } = setUp(() => 'x'.repeat(65_536))
    const dead = { kind: 'dead', reason: 'fatal', attempt: 1 }
    expect((await runUnleased()).outcome).toMatchObject(dead)
  })

  test('a drain returns the delivery', async () => {
    const { runUnleased, drain, clock } = setUp(() => new Promise<never>(noop))
    const running = runUnleased()
    await turn()
    drain.abort()
    clock.advance(2_000)
    expect((await running).outcome).toEqual({ ...abandoned, reason: 'closing' })
  })
})
