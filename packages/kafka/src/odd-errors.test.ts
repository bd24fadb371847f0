import { expect, test } from 'vitest'
import { classifyError, deniesTopic, missingCodecIn, rebalanceIn } from './errors.ts'

const boom = (): never => {
  throw new Error('boom')
}
const hiding = (value: object, name: string): object =>
  Object.defineProperty(value, name, { get: boom })

function revoked(): unknown {
  const { proxy, revoke } = Proxy.revocable({}, {})
  revoke()
  return proxy
}

/** What a client, a proxy around it or a function of the user may throw. */
const ODD: readonly (readonly [string, unknown])[] = [
  ...[undefined, null, '', 0, 1n, Symbol('x'), boom, {}].map(
    (value) => [String(value), value] as const,
  ),
  ['an object without a prototype', Object.create(null)],
  ['an object whose text throws', { toString: boom }],
  ['a revoked proxy', revoked()],
  ['a message that is no text', Object.assign(new Error(), { message: Object.create(null) })],
  ['a name that is no text', Object.assign(new Error(), { name: Symbol('x') })],
  ...['name', 'message', 'code', 'Code', 'type', 'cause'].flatMap((name) => [
    [`an error with a ${name} that throws`, hiding(new Error('x'), name)] as const,
    [`an object with a ${name} that throws`, hiding({}, name)] as const,
  ]),
  ['a message of five million characters', new Error('x'.repeat(5_000_000))],
]

// Red when reading the error throws: a rejection while a failure is handled ends the consumer, or the process.
test.each(ODD)(
  'any value that is thrown is classified, with a text of bounded length: %s',
  (_what, value) => {
    const { text } = classifyError(value)
    expect([typeof text, text.length < 2_100]).toEqual(['string', true])
    expect([rebalanceIn(value), missingCodecIn(value)]).toEqual([undefined, undefined])
    expect(deniesTopic(value)).toBe(false)
  },
)
