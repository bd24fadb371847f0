import { expect, test } from 'vitest'
import { expressionsIn, expressionsInPackages, superLinear } from './expressions.ts'

const all = expressionsInPackages()
const { raw } = String

// One request of 1 MiB stopped a server for minutes: no timer fires while an expression is matched.
test('every regular expression of the packages takes linear time', () => {
  const wrong = all
    .filter(({ isLiteral }) => isLiteral)
    .flatMap(({ place, text }) => superLinear(text).map((why) => `${place} ${text}: ${why}`))
  expect(all.length).toBeGreaterThan(150)
  expect(wrong).toEqual([])
})

test('an expression that is made at run time is known, and why it takes linear time', () => {
  const made = all.filter(({ isLiteral }) => !isLiteral).map(({ place }) => place.split(':')[0])
  expect(made.toSorted()).toEqual([
    // One class between two anchors, and a bound.
    'core/src/support/outbox-message.ts',
    // The user's own subscription, for the name of a topic, which has 249 characters at most.
    'kafka/src/clients/matches.ts',
  ])
})

test.each([
  [raw`/^[A-Za-z0-9+/\s]+={0,2}\s*$/`, /Trade/],
  [raw`/\s+$/`, /begins again/],
  [raw`/brokers? .*down/`, /begins again/],
  [raw`/:\/\/[^/:@\s]*:(\S+)@/`, /begins again/],
  [raw`/^.*b.*c$/s`, /Trade/],
  [raw`/^(?:a+)+$/`, /Self/],
  [raw`/^(?:\w|\d)*$/`, /begin alike/],
])('%s is found', (literal, why) => {
  expect(superLinear(literal).join()).toMatch(why)
})

test.each([
  raw`/^a+b/`,
  raw`/a+b/y`,
  raw`/message size \d+ is larger/`,
  raw`/(?:^|[;\r\n])[^\S\r\n]*set/`,
  raw`/\/\*.*$/s`,
  raw`/^"(?:[^"\\]|\\.)*"$/`,
])('%s is not', (literal) => {
  expect(superLinear(literal)).toEqual([])
})

test('literals and calls are found wherever they stand', () => {
  const source = 'const f = (x: string) => x.split(/a+/g).map(() => RegExp(x), new RegExp("b"))'
  expect(
    expressionsIn('f.ts', source)
      .map(({ text }) => text)
      .toSorted(),
  ).toEqual(['/a+/g', 'RegExp(x)', 'new RegExp("b")'])
})
