import { describe, expect, test } from 'vitest'
import type { NextDelivery } from '../data/next-delivery.ts'
import type { Story } from '../data/story.ts'
import { facts, NOW, REDIS, REGISTERED } from '../fixtures/facts.ts'
import { storyText } from './story.ts'

const MARKED = { style: (style: unknown, text: string) => `<${String(style)}>${text}</>` }
const RUN: NextDelivery = { kind: 'run', attempt: 1, why: 'No store has heard of it.' }

function text(over: Partial<Story['facts']> = {}, story: Partial<Story> = {}): string {
  const whole = { facts: facts(over), state: 'dead', chapters: [], next: RUN, isKnown: true }
  return storyText({ ...whole, ...story }, MARKED)
}

test('an event without a story has its name, its state and what comes next', () => {
  expect(text()).toBe(
    [
      '<bold>event    </> 0c5d9f52-6f3c-9b3a-2f86-8f5b7a5e6f10',
      '<bold>key      </> o-1',
      '<bold>consumer </> billing (no guard of this consumer has ever started here with an inbox)',
      '<bold>state    </> dead',
      '',
      'Nothing is recorded.',
      '',
      '<bold>next delivery</>  runs as attempt 1',
      '  No store has heard of it.',
    ].join('\n'),
  )
})

test('what is known of its name is shown, and nothing in it is hidden', () => {
  const shown = text({ key: 'a\u001b', tenant: 'acme', registration: REGISTERED })
  expect(shown).toContain('<bold>key      </> a\\u{1b}\n<bold>tenant   </> acme\n')
  expect(shown).toContain('billing (dedup window 1 d, last registered 1 min ago)')
  const unnamed = text({ key: '', consumer: '' })
  expect(unnamed).toContain('<bold>key      </> –\n<bold>consumer </> – (')
})

test('what was told is a line with its details below', () => {
  const chapters = [
    { atMs: NOW - 60_000, what: 'failed\u001b', detail: 'Error: down\n    at \u001bpay' },
    { atMs: NOW + 5_000, what: 'is due' },
  ]
  const shown = text({}, { chapters })
  expect(shown).toContain(
    [
      '',
      '2027-01-15T07:59:00.000Z  <dim>1 min ago       </>  failed\\u{1b}',
      '    Error: down',
      '        at \\u{1b}pay',
      '2027-01-15T08:00:05.000Z  <dim>in 5 s          </>  is due',
      '',
      '<bold>next delivery</>  runs as attempt 1',
    ].join('\n'),
  )
  expect(shown).not.toContain('Nothing is recorded.')
})

test.each<readonly [Partial<Story['facts']>, readonly string[]]>([
  [{ redis: undefined }, []],
  [{ redis: REDIS }, ['<bold>redis    </> absent']],
  [
    { redis: { ...REDIS, kind: 'done', isMarked: true } },
    ['<bold>redis    </> done, remembered as done'],
  ],
  [{ lease: 'forbidden' }, ['<bold>leases   </> this login may not read the table']],
  [
    { lease: 'forbidden', redis: REDIS },
    ['<bold>leases   </> this login may not read the table', '<bold>redis    </> absent'],
  ],
])('with %j the stores say %j', (over, lines) => {
  const [fields = ''] = text(over).split('\n\n')
  expect(fields.split('\n').slice(4)).toEqual(lines)
})

describe('the next delivery', () => {
  test.each<readonly [NextDelivery, string]>([
    [{ ...RUN, attempt: 3 }, 'runs as attempt 3'],
    [{ kind: 'ack', reason: 'duplicate', why: 'w' }, 'acked as duplicate'],
    [
      { kind: 'defer', reason: 'not-due', untilMs: NOW + 5_000, why: 'w' },
      'deferred (not-due), not before 2027-01-15T08:00:05.000Z, in 5 s',
    ],
    [{ kind: 'defer', reason: 'not-due', why: 'w' }, 'deferred (not-due), not before –'],
    [{ kind: 'dead-letter', reason: 'fatal', why: 'w' }, 'settled as dead-lettered (fatal)'],
  ])('of %j is %s', (next, expected) => {
    expect(text({}, { next })).toContain(`</>  ${expected}\n  ${next.why}`)
  })
})
