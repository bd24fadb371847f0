import { describe, expect, test } from 'vitest'
import type { Fingerprint, OwnerToken } from './brands.ts'
import { type Command, type EventState, MACHINE, transition } from './state-machine.ts'

const NOW = 1_000_000
const LEASE = 30_000
const me = 'me' as OwnerToken
const other = 'other' as OwnerToken
const print = 0x1101n as Fingerprint
const samePrint = print
const otherPrint = 0x2201n as Fingerprint
const otherRule = 0x2202n as Fingerprint
const noPrint = 0n as Fingerprint

const absent: EventState = { kind: 'absent' }
const running = (over: Partial<Extract<EventState, { kind: 'in-progress' }>> = {}): EventState => ({
  kind: 'in-progress',
  owner: me,
  leaseUntil: NOW + 10_000,
  attempt: 2,
  by: 'retry',
  fingerprint: print,
  parked: false,
  ...over,
})
const waiting = (over: Partial<Extract<EventState, { kind: 'waiting' }>> = {}): EventState => ({
  kind: 'waiting',
  notBefore: NOW,
  attempt: 2,
  fingerprint: print,
  parked: false,
  ...over,
})
const done: EventState = { kind: 'done', fingerprint: print, result: { ok: true } }
const dead: EventState = { kind: 'dead', reason: 'fatal', attempt: 3, fingerprint: print }

const COMMANDS = {
  claim: { kind: 'claim', fingerprint: samePrint, ownerToken: me, leaseMs: LEASE, maxAttempts: 5 },
  renew: { kind: 'renew', ownerToken: me, leaseMs: LEASE },
  complete: { kind: 'complete', ownerToken: me, result: 7 },
  fail: { kind: 'fail', ownerToken: me, delayMs: 500 },
  release: { kind: 'release', ownerToken: me },
  bury: { kind: 'bury', ownerToken: me, reason: 'fatal' },
} as const satisfies { [K in Command['kind']]: Extract<Command, { kind: K }> }

const inProgress = (by: 'first' | 'takeover' | 'retry', attempt: number) =>
  running({ by, attempt, leaseUntil: NOW + LEASE })

type Row = {
  readonly from: EventState
  readonly to: { readonly [K in Command['kind']]: readonly [EventState, unknown] | 'lost' }
}
const onlyClaim = (state: EventState, answer: unknown): Row['to'] => ({
  claim: [state, answer],
  renew: 'lost',
  complete: 'lost',
  fail: 'lost',
  release: 'lost',
  bury: 'lost',
})

/** The rows of the table in design.md §4. */
const TABLE: Readonly<Record<string, Row>> = {
  absent: {
    from: absent,
    to: onlyClaim(inProgress('first', 1), { kind: 'acquired', by: 'first', attempt: 1 }),
  },
  'in-progress, mine': {
    from: running(),
    to: {
      claim: [inProgress('retry', 2), { kind: 'acquired', by: 'retry', attempt: 2 }],
      renew: [inProgress('retry', 2), 'held'],
      complete: [{ kind: 'done', fingerprint: print, result: 7 }, 'held'],
      fail: [waiting({ notBefore: NOW + 500 }), 'held'],
      release: [waiting({ attempt: 1 }), 'held'],
      bury: [{ kind: 'dead', reason: 'fatal', attempt: 2, fingerprint: print }, 'held'],
    },
  },
  "in-progress, another's, lease running": {
    from: running({ owner: other }),
    to: onlyClaim(running({ owner: other }), { kind: 'in-progress', remainingMs: 10_000 }),
  },
  'in-progress, lease expired': {
    from: running({ owner: other, leaseUntil: NOW }),
    to: onlyClaim(inProgress('takeover', 3), { kind: 'acquired', by: 'takeover', attempt: 3 }),
  },
  'waiting, not due': {
    from: waiting({ notBefore: NOW + 1 }),
    to: onlyClaim(waiting({ notBefore: NOW + 1 }), { kind: 'not-due', remainingMs: 1 }),
  },
  'waiting, due': {
    from: waiting(),
    to: onlyClaim(inProgress('retry', 3), { kind: 'acquired', by: 'retry', attempt: 3 }),
  },
  done: { from: done, to: onlyClaim(done, { kind: 'duplicate', result: { ok: true } }) },
  dead: { from: dead, to: onlyClaim(dead, { kind: 'dead', reason: 'fatal' }) },
}

describe('the table of design.md §4', () => {
  for (const [name, { from, to }] of Object.entries(TABLE)) {
    for (const kind of Object.keys(COMMANDS) as Command['kind'][]) {
      test(`${name} on ${kind}`, () => {
        const before = structuredClone(from)
        const expected = to[kind]
        const { state, answer } = transition(from, COMMANDS[kind], NOW)
        expect({ state, answer }).toEqual(
          expected === 'lost'
            ? { state: from, answer: 'lost' }
            : { state: expected[0], answer: expected[1] },
        )
        expect(from).toEqual(before)
      })
    }
  }

  test('has five states and six commands, with a row for each in this test', () => {
    const states = Object.keys(MACHINE)
    expect(states).toEqual(['absent', 'in-progress', 'waiting', 'done', 'dead'])
    for (const row of Object.values(MACHINE)) {
      expect(Object.keys(row)).toEqual(Object.keys(COMMANDS))
    }
    expect(new Set(Object.values(TABLE).map((row) => row.from.kind))).toEqual(new Set(states))
  })
})

describe('an owner whose lease expired but was not taken over', () => {
  const expired = running({ leaseUntil: NOW - 60_000 })
  for (const kind of ['renew', 'complete', 'fail', 'release', 'bury'] as const) {
    test(`may still ${kind}`, () => {
      expect(transition(expired, COMMANDS[kind], NOW).answer).toBe('held')
    })
    test(`may not ${kind} after a takeover`, () => {
      const taken = transition(expired, { ...COMMANDS.claim, ownerToken: other }, NOW).state
      expect(transition(taken, COMMANDS[kind], NOW)).toEqual({ state: taken, answer: 'lost' })
    })
  }
  test('may resend its claim without using an attempt', () => {
    expect(transition(expired, COMMANDS.claim, NOW)).toEqual({
      state: inProgress('retry', 2),
      answer: { kind: 'acquired', by: 'retry', attempt: 2 },
    })
  })
})

describe('a resent claim', () => {
  test('never shortens the lease', () => {
    const long = running({ leaseUntil: NOW + 10 * LEASE })
    expect(transition(long, COMMANDS.claim, NOW).state).toEqual(long)
  })
  test('gets the same answer at the last attempt', () => {
    const claim = { ...COMMANDS.claim, maxAttempts: 2 }
    expect(transition(running(), claim, NOW).answer).toMatchObject({ kind: 'acquired' })
  })
})

describe('release', () => {
  test('of the first attempt deletes the entry', () => {
    expect(transition(running({ attempt: 1 }), COMMANDS.release, NOW).state).toEqual(absent)
  })
  test('of the first attempt of a parked event leaves it waiting, attempt 0, due now', () => {
    const parked = running({ attempt: 1, parked: true })
    const { state } = transition(parked, COMMANDS.release, NOW)
    expect(state).toEqual(waiting({ attempt: 0, parked: true }))
    expect(transition(state, COMMANDS.claim, NOW).answer).toEqual({
      kind: 'acquired',
      by: 'retry',
      attempt: 1,
    })
  })
  test('keeps an event parked through fail and claim', () => {
    const failed = transition(running({ parked: true }), COMMANDS.fail, NOW).state
    expect(failed).toMatchObject({ parked: true })
    expect(transition(failed, COMMANDS.claim, NOW + 500).state).toMatchObject({ parked: true })
  })
})

describe('past the last attempt', () => {
  for (const [name, state] of [
    ['an expired claim', running({ owner: other, leaseUntil: NOW, attempt: 5 })],
    ['a due event', waiting({ attempt: 5 })],
  ] as const) {
    test(`${name} is dead-lettered`, () => {
      expect(transition(state, COMMANDS.claim, NOW)).toEqual({
        state: { kind: 'dead', reason: 'attempts-spent', attempt: 5, fingerprint: print },
        answer: { kind: 'dead', reason: 'attempts-spent' },
      })
    })
    test(`${name} is acquired if the store has no maximum`, () => {
      const claim = { ...COMMANDS.claim, maxAttempts: undefined }
      expect(transition(state, claim, NOW).answer).toMatchObject({ attempt: 6 })
    })
  }
})

describe('a claim with another fingerprint', () => {
  const states = Object.entries(TABLE).filter(([name]) => name !== 'absent')
  for (const [name, { from }] of states) {
    test(`of the same rule is a conflict and changes nothing: ${name}`, () => {
      const claim = { ...COMMANDS.claim, fingerprint: otherPrint }
      expect(transition(from, claim, NOW)).toEqual({ state: from, answer: { kind: 'conflict' } })
    })
    test(`of another rule, or of none, is no conflict: ${name}`, () => {
      for (const fingerprint of [otherRule, noPrint]) {
        const { answer } = transition(from, { ...COMMANDS.claim, fingerprint }, NOW)
        expect(answer).not.toEqual({ kind: 'conflict' })
      }
    })
  }
})

test('a trace: claim by A, claim by B, conflict, takeover by B, late complete by A, failure, too early, spent', () => {
  let state: EventState = absent
  const answers: unknown[] = []
  const send = (command: Command, at: number): void => {
    const next = transition(state, command, at)
    state = next.state
    answers.push(typeof next.answer === 'string' ? next.answer : next.answer.kind)
  }
  const claim = { ...COMMANDS.claim, maxAttempts: 2 }
  send({ ...claim, ownerToken: me }, 0)
  send({ ...claim, ownerToken: other }, 1)
  send({ ...claim, ownerToken: other, fingerprint: otherPrint }, LEASE)
  send({ ...claim, ownerToken: other }, LEASE)
  send({ ...COMMANDS.complete, ownerToken: me }, LEASE + 1)
  send({ ...COMMANDS.fail, ownerToken: other }, LEASE + 2)
  send(claim, LEASE + 3)
  send(claim, LEASE + 502)
  expect(answers).toEqual([
    'acquired',
    'in-progress',
    'conflict',
    'acquired',
    'lost',
    'held',
    'not-due',
    'dead',
  ])
})
