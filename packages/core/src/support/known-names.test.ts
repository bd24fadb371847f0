import { describe, expect, test } from 'vitest'
import { seededRandom } from '../fixtures/random.ts'
import { ConfigurationError } from '../model/errors.ts'
import { type KnownNames, refuseUnknownNames, unknownNames } from './known-names.ts'

interface Options {
  readonly queueUrl?: string
  readonly visibilityMs?: number
  readonly signal?: unknown
  readonly by?: string
}
const KNOWN: KnownNames<Options> = { queueUrl: true, visibilityMs: true, signal: true, by: true }

function problemOf(options: unknown): string {
  try {
    refuseUnknownNames('consumeSqs', options as Options, KNOWN)
    return 'known'
  } catch (error) {
    expect(error).toBeInstanceOf(ConfigurationError)
    return (error as Error).message
  }
}

describe('options with unknown names', () => {
  test('known names pass, even if they are undefined', () => {
    expect(problemOf({ queueUrl: 'q', signal: undefined })).toBe('known')
    expect(problemOf({})).toBe('known')
    expect(problemOf(Object.create(null))).toBe('known')
  })

  test.each([
    ['queueURL', 'queueUrl'],
    ['queue_url', 'queueUrl'],
    ['queueUlr', 'queueUrl'],
    ['queuUrl', 'queueUrl'],
    ['visibilityTimeoutMs', 'visibilityMs'],
    ['visibility', 'visibilityMs'],
    ['signals', 'signal'],
  ])('%s is refused, and %s is suggested', (name, meant) => {
    expect(problemOf({ [name]: undefined })).toBe(
      `consumeSqs does not know "${name}", did you mean "${meant}"?`,
    )
  })

  test.each(['x', 'prefetch', '__proto__x', 'constructor', 'toString', ''])(
    '%s is refused, and the error lists the known names',
    (name) => {
      expect(problemOf({ [name]: 1 })).toBe(
        `consumeSqs does not know "${name}". It knows: queueUrl, visibilityMs, signal, by.`,
      )
    },
  )

  test('one error names all unknown names', () => {
    expect(problemOf({ queueURL: 1, prefetch: 1 }).split('\n')).toHaveLength(2)
  })

  test.each([
    ['null', null],
    ['string', 'postgres://user:hunter2@db/app'],
    ['an array', ['postgres://user:hunter2@db/app']],
    ['number', 5],
    ['undefined', undefined],
  ])('%s instead of an object is refused, and the value is not shown', (name, options) => {
    expect(problemOf(options)).toBe(`consumeSqs expected an object of options, got ${name}.`)
  })

  test('an error does not contain a name that is a connection string or very long', () => {
    expect(problemOf({ 'postgres://user:hunter2@db/app': 1 })).not.toContain('hunter2')
    expect(problemOf({ ['x'.repeat(100_000)]: 1 }).length).toBeLessThan(300)
  })

  test('the group of a nested name is no likeness', () => {
    const told = (name: string) => unknownNames('consumeSqs', [name], ['batch.size', 'batch.wait'])
    expect(told('batch.sise')).toEqual([
      'consumeSqs does not know "batch.sise", did you mean "batch.size"?',
    ])
    expect(told('batch.yyy')).toEqual([
      'consumeSqs does not know "batch.yyy". It knows: batch.size, batch.wait.',
    ])
  })

  test.each([
    ['bacth.size', ['batch.size', 'queue'], 'batch.size'],
    ['batch.size', ['size', 'queue.size'], undefined],
    ['batch.sise', ['sise', 'batch.size', 'batch.seize'], 'batch.size'],
    ['queue', [], undefined],
    ['uqeueUlr', ['queueUrl'], 'queueUrl'],
    ['concurrencyLimit', ['concurrency'], 'concurrency'],
    ['concX', ['conc'], 'conc'],
    ['conXXXX', ['con'], undefined],
    ['queueUrk', ['queueName', 'queueUrl', 'queueArn'], 'queueUrl'],
    ['concXXXX', ['conc'], 'conc'],
    ['ab', ['ab1', 'abc'], 'ab1'],
  ] as const)('%s among %o may mean %s', (name, known, meant) => {
    const told = unknownNames('consumeSqs', [name], known)
    expect(told).toEqual([
      meant === undefined
        ? `consumeSqs does not know "${name}". It knows: ${known.join(', ')}.`
        : `consumeSqs does not know "${name}", did you mean "${meant}"?`,
    ])
  })

  test('the nearest name is suggested, counting each wrong, missing, added or swapped letter', () => {
    const random = seededRandom(11)
    const word = (letters: number) =>
      Array.from({ length: letters }, () => 'abc'[Math.floor(random() * 3)]).join('')
    for (let round = 0; round < 3_000; round++) {
      // Shorter than a beginning that counts.
      const [name, known] = [word(2 + (round % 3)), word(3)]
      const isNear = name !== known && distance(name, known) <= 2
      if (name === known) continue
      expect([name, known, unknownNames('f', [name], [known])[0]?.includes('mean')]).toEqual([
        ...[name, known, isNear],
      ])
    }
  })
})

/** Written as the definition has it: optimal string alignment. */
function distance(one: string, other: string): number {
  if (one === '' || other === '') return one.length + other.length
  const costs = [
    distance(one.slice(1), other) + 1,
    distance(one, other.slice(1)) + 1,
    distance(one.slice(1), other.slice(1)) + (one[0] === other[0] ? 0 : 1),
  ]
  const isSwapped = one[0] === other[1] && one[1] === other[0]
  if (isSwapped) costs.push(distance(one.slice(2), other.slice(2)) + 1)
  return Math.min(...costs)
}
