import type { Confirmation } from '@onceward/core'
import { expect, test } from 'vitest'
import type { Outcome } from './publish.ts'
import type { StoredMessage } from './relay-store.ts'
import { Verdicts } from './verdicts.ts'

const error = new Error('no')
const ANSWERS = {
  ok: undefined,
  refused: { refused: error },
  unknown: { unknown: error },
  down: { down: error },
}

const message = (position: string, attempt = 0): StoredMessage => ({
  ...{ id: position, position, attempt, key: position, lane: position, source: 's', type: 't' },
  ...{ contentType: 'c', headers: {}, payload: Buffer.alloc(0) },
})

/** `3a1 unknown`: the third call had message a, of which one attempt was counted, and its answer was unknown. */
function outcome(text: string): Outcome {
  const [, call, position = '', attempt, answer] = /^(\d)(\w)(\d?) (\w+)$/.exec(text) ?? []
  const given: Confirmation = ANSWERS[answer as keyof typeof ANSWERS]
  return { message: message(position, Number(attempt)), call: Number(call), answer: given }
}

/** What is counted after each look, and whether the destination is down then. */
const judged = (looks: readonly string[]): readonly string[] => {
  const verdicts = new Verdicts()
  return looks.map((look) => {
    const { counted, failure } = verdicts.of(look.split(', ').map(outcome))
    return [...counted.map(({ message: { position } }) => position), failure && 'down']
      .filter(Boolean)
      .join()
  })
}

const times = <Value>(count: number, value: Value): readonly Value[] => Array(count).fill(value)

// Red before: nothing but a refusal was ever counted, and every other failure was an outage.
test.each<readonly [what: string, looks: readonly string[], expected: readonly string[]]>([
  ['a refusal is the message’s', ['1a refused'], ['a']],
  ['what fails while a later call is confirmed is the message’s', ['1a unknown, 2b ok'], ['a']],
  ['so is one that is told that the destination is down', ['1a down, 2b ok'], ['a']],
  ['a later look counts too', ['1a unknown', '2b ok, 3a unknown', '4c ok'], ['down', 'down', '']],
  ['a call that began before says nothing', ['1b ok, 2a unknown'], ['down']],
  ['everything fails: nothing is counted', times(9, '1a unknown, 2b unknown'), times(9, 'down')],
  ['nor is what failed before', times(9, '1a1 unknown, 2b unknown'), times(9, 'down')],
  [
    'a call that ends late is judged by what was confirmed meanwhile',
    ['2b ok', '1a unknown'],
    ['', 'a'],
  ],
  ['what failed before fails again, alone', ['1a1 unknown'], ['a']],
  [
    'a message that fails alone is counted after five looks',
    times(5, '1a unknown'),
    [...times(4, 'down'), 'a'],
  ],
  [
    'until something is confirmed, no second one is',
    [...times(5, '1a unknown'), ...times(9, '2b unknown')],
    [...times(4, 'down'), 'a', ...times(9, 'down')],
  ],
  [
    'then it is',
    [...times(5, '1a unknown'), '2c ok', ...times(5, '3b unknown')],
    [...times(4, 'down'), 'a', '', ...times(4, 'down'), 'b'],
  ],
  ['a destination that says that it is down is down', times(9, '1a down'), times(9, 'down')],
  [
    'unless the message was counted before',
    times(10, '1a1 down'),
    [...times(4, 'down'), 'a', ...times(4, 'down'), 'a'],
  ],
])('%s', (_what, looks, expected) => {
  expect(judged(looks)).toEqual(expected)
})
