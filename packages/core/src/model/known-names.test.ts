import { describe, expect, test } from 'vitest'
import { ConfigurationError } from './errors.ts'
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
    return ''
  } catch (error) {
    expect(error).toBeInstanceOf(ConfigurationError)
    return (error as Error).message
  }
}

describe('options with unknown names', () => {
  test('known names pass, even if they are undefined', () => {
    expect(problemOf({ queueUrl: 'q', signal: undefined })).toBe('')
    expect(problemOf({})).toBe('')
    expect(problemOf(Object.create(null))).toBe('')
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
    ['a text', 'postgres://user:hunter2@db/app'],
    ['an array', ['postgres://user:hunter2@db/app']],
    ['a number', 5],
  ])('%s instead of an object is refused, and the value is not shown', (_name, options) => {
    expect(problemOf(options)).toMatch(/^consumeSqs expected an object of options, got /)
    expect(problemOf(options)).not.toContain('hunter2')
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
})
