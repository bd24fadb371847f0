import type { EventId } from '@onceward/core/ports'
import { newId } from '@onceward/testing/conformance'
import { describe, expect, it, test } from 'vitest'
import type { ScriptCall } from './client.ts'
import { bucketKeys, keyOf, type Namespace } from './keys.ts'
import type { ScriptName } from './scripts.ts'
import { createScriptRunner, createScripts, type ScriptEntry } from './scripts.ts'

const marked: Namespace = { name: 'orders', markMs: 500, bucketSecret: 's', keepMs: 1_000 }
const unmarked: Namespace = { ...marked, markMs: 0 }
const scripts = createScripts()

const entriesOf = (count: number): readonly ScriptEntry[] =>
  Array.from({ length: count }, (_, index) => ({ id: newId() as EventId, args: [`${index}`] }))

/** A runner over a server that gives these answers; each event of a call has one argument. */
function setUp(answer: (call: ScriptCall, names: readonly string[]) => unknown) {
  const calls: ScriptCall[] = []
  const run = createScriptRunner(async (call) => {
    calls.push(call)
    return answer(call, call.args.slice(2).map(String))
  }, scripts)
  return { calls, run }
}

const crossSlot = new Error("CROSSSLOT Keys in request don't hash to the same slot")

test.each<[ScriptName, Namespace, boolean]>([
  ['claim', marked, true],
  ['complete', marked, true],
  ['sample', marked, true],
  ['inspect', marked, true],
  ['renew', marked, false],
  ['release', marked, false],
  ['claim', unmarked, false],
])('a script declares every key it may touch: %s', async (script, namespace, hasMarks) => {
  const { calls, run } = setUp(() => ['a', 'b'])
  const entries = entriesOf(2)
  const answers = await run({ script, namespace, common: ['c'], entries })
  expect(answers).toEqual(['a', 'b'])
  expect(calls).toEqual([
    {
      ...scripts[script],
      keys: entries.flatMap(({ id }) => [
        keyOf(namespace, id),
        ...(hasMarks ? bucketKeys(namespace, id) : []),
      ]),
      args: [String(namespace.markMs), '1000', 'c', '0', '1'],
    },
  ])
})

test('marks are declared by the two keys where each may be, and sent as one argument', async () => {
  const { calls, run } = setUp(() => [1, 1])
  const entries = entriesOf(2)
  await run({ script: 'mark', namespace: marked, common: ['c'], entries })
  expect(calls).toEqual([
    {
      ...scripts.mark,
      keys: entries.flatMap(({ id }) => bucketKeys(marked, id)),
      args: ['500', '1000', 'c', Buffer.from('01')],
    },
  ])
})

describe('on a cluster', () => {
  // Red when an event whose keys are on two nodes for a while cannot be claimed or completed.
  it('an event whose slot moves is decided without its marks', async () => {
    const { calls, run } = setUp((call, names) => {
      if (call.keys.length > 1) throw new Error('TRYAGAIN Multiple keys request during rehashing')
      return names
    })
    const batch = { namespace: marked, entries: entriesOf(1) }
    expect(await run({ script: 'claim', ...batch })).toEqual(['0'])
    expect(calls.map(({ args, keys }) => [keys.length, args[0]])).toEqual([
      [3, '500'],
      [1, '0'],
    ])
    // A sample of marks says nothing without them.
    await expect(run({ script: 'sample', ...batch })).rejects.toThrow(/TRYAGAIN/)
    expect(calls).toHaveLength(3)
  })

  it('an event that is refused without its marks too has failed', async () => {
    const { run } = setUp(() => {
      throw crossSlot
    })
    const batch = { script: 'claim', namespace: marked, entries: entriesOf(1) } as const
    await expect(run(batch)).rejects.toThrow(/CROSSSLOT/)
    const odd = setUp((call) => {
      if (call.keys.length > 1) throw crossSlot
      return 'OK'
    })
    expect(await odd.run(batch)).toEqual([undefined])
  })
})
