import { FINGERPRINT, newClaim } from '@onceward/testing/conformance'
import { describe, expect, it, test } from 'vitest'
import { fingerprintBytes, keyText, marksPattern, type Namespace } from './keys.ts'
import type { ScriptBatch } from './run-script.ts'
import { type Transitions, transitionsIn } from './transitions.ts'

const namespace: Namespace = { name: 'orders', markMs: 0, bucketSecret: '', keepMs: 1_000 }

/** Transitions over a Redis that gives these answers. */
function setUp(answers: readonly unknown[], over: Partial<Namespace> = {}) {
  const sent: ScriptBatch[] = []
  const foreign: string[] = []
  const run = async (batch: ScriptBatch): Promise<readonly unknown[]> => {
    sent.push(batch)
    return answers
  }
  const its = { ...namespace, ...over }
  const transitions = transitionsIn(run, its, (key) => void foreign.push(key))
  return { sent, foreign, transitions }
}

const [one, two, three] = [newClaim(), newClaim(), newClaim()] as const

describe('a claim', () => {
  it.each<[string, unknown, unknown]>([
    ['the first', ['acquired', 'first', 1], { kind: 'acquired', by: 'first', attempt: 1 }],
    [
      'texts of a client that answers buffers',
      ['acquired', 'takeover', '2'].map((text) => Buffer.from(text)),
      { kind: 'acquired', by: 'takeover', attempt: 2 },
    ],
    ['held', ['in-progress', '17'], { kind: 'in-progress', remainingMs: 17 }],
    ['not due', ['not-due', 18], { kind: 'not-due', remainingMs: 18 }],
    ['a done mark', ['duplicate'], { kind: 'duplicate', result: undefined }],
    ['done without a result', ['duplicate', null], { kind: 'duplicate', result: undefined }],
    ['done with a result', ['duplicate', '{"a":1}'], { kind: 'duplicate', result: { a: 1 } }],
    ['dead', ['dead', 'fatal'], { kind: 'dead', reason: 'fatal' }],
    ['another payload', ['conflict'], { kind: 'conflict' }],
  ])('reads the answer of Redis: %s', async (_, answer, result) => {
    const { transitions, foreign } = setUp([answer])
    expect(await transitions.claim([one])).toEqual([result])
    expect(foreign).toEqual([])
  })

  it.each([[['later']], [['duplicate', '{oops}']], [[]], [undefined], ['OK']])(
    'answers unknown for %j, and reports the key of this event alone',
    async (answer) => {
      const { transitions, foreign } = setUp([['conflict'], answer, ['conflict']])
      const kinds = (await transitions.claim([one, two, three])).map(({ kind }) => kind)
      expect(kinds).toEqual(['conflict', 'unknown', 'conflict'])
      expect(foreign).toEqual([keyText(namespace, two.id)])
    },
  )

  it('sends whole milliseconds, never less than the lease, and no maximum of attempts unless there is one', async () => {
    const { transitions, sent } = setUp([['conflict'], ['conflict']])
    await transitions.claim([
      { ...one, leaseMs: 10.2 },
      { ...two, leaseMs: -1, maxAttempts: 3 },
    ])
    const fingerprint = fingerprintBytes(FINGERPRINT)
    expect(sent).toEqual([
      {
        ...{ script: 'claim', namespace },
        entries: [
          { id: one.id, args: [fingerprint, one.ownerToken, '11', '0'] },
          { id: two.id, args: [fingerprint, two.ownerToken, '0', '3'] },
        ],
      },
    ])
  })
})

describe('the owner of a claim', () => {
  type Verb = 'renew' | 'complete' | 'fail' | 'release' | 'bury'
  const told = { ...one, delayMs: 1.5, reason: 'fatal', result: [1] } as const
  const tell: Readonly<Record<Verb, (transitions: Transitions) => Promise<unknown>>> = {
    renew: ({ renew }) => renew([told], 7.1),
    complete: ({ complete }) => complete([told], 60_000),
    fail: ({ fail }) => fail([told]),
    release: ({ release }) => release([told]),
    bury: ({ bury }) => bury([told], 60_000),
  }

  it.each<[Verb, readonly string[], readonly string[]]>([
    ['renew', ['8'], []],
    ['complete', ['60000'], ['[1]']],
    ['fail', [], ['2']],
    ['release', [], []],
    ['bury', ['60000'], ['fatal']],
  ])('%s names the token and what Redis needs besides', async (script, common, args) => {
    for (const [answer, answered] of [
      [1, 'held'],
      ['1', 'held'],
      [0, 'lost'],
      ['0', 'lost'],
    ]) {
      const { transitions, sent, foreign } = setUp([answer])
      expect(await tell[script](transitions)).toEqual([answered])
      expect([sent, foreign]).toEqual([
        [{ script, namespace, common, entries: [{ id: one.id, args: [one.ownerToken, ...args] }] }],
        [],
      ])
    }
  })

  test('learns that the claim is completed where a key of another program is in the way, and the key is reported', async () => {
    const { transitions, foreign } = setUp([1, 2, 1])
    expect(await transitions.complete([one, two, three], 1)).toEqual(['held', 'held', 'held'])
    expect(foreign).toEqual([marksPattern(namespace, two.id)])
    const quiet = transitionsIn(async () => [2], namespace)
    expect(await quiet.complete([one], 1)).toEqual(['held'])
  })

  test('tells how long an event may be remembered, also beside an inbox, and sends no result if there is none', async () => {
    const { transitions, sent } = setUp([1], { markMs: 500 })
    await transitions.complete([one], 60_000)
    expect(sent).toMatchObject([{ common: ['60000'], entries: [{ args: [one.ownerToken, ''] }] }])
  })
})

test.each(['replay', 'forget'] as const)(
  '%s answers whether Redis knew the event',
  async (verb) => {
    const { transitions, sent } = setUp([1, '1', 0])
    expect(await transitions[verb]([one.id, two.id, three.id])).toEqual([true, true, false])
    const entries = [one, two, three].map(({ id }) => ({ id, args: [] }))
    expect(sent).toEqual([{ script: verb, namespace, entries }])
  },
)
