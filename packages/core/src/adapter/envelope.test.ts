import { createHash } from 'node:crypto'
import * as fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { toDelivery } from '../memory/to-delivery.ts'
import { EnvelopeError } from '../model/errors.ts'
import { readEnvelope, withEnvelope, writeEnvelope } from './envelope.ts'

const text = fc.string({ unit: 'binary' })
/** Every code unit, so unpaired surrogates too. */
const units = fc
  .array(fc.integer({ min: 0, max: 0xffff }))
  .map((codes) => String.fromCharCode(...codes))
/** `toStrictEqual` takes a property called "constructor" for the type of the object. */
const name = fc.oneof(
  text.filter((own) => own !== 'constructor'),
  fc.constant('__proto__'),
)
const bytes = fc.uint8Array({ maxLength: 64 })
const leaf = fc.oneof(
  ...[text, units, fc.double(), fc.bigInt(), fc.boolean(), fc.constant(null)],
  ...[fc.constant(undefined), fc.constant(-0), fc.date({ noInvalidDate: false })],
  ...[bytes, bytes.map((all) => Buffer.from(all))],
)
const value = fc.letrec<{ value: unknown }>((tie) => ({
  value: fc.oneof(
    { maxDepth: 4, withCrossShrink: true },
    leaf,
    fc.array(tie('value'), { maxLength: 5 }),
    fc
      .array(fc.tuple(name, tie('value')), { maxLength: 5 })
      .map((entries) => Object.fromEntries(entries)),
  ),
})).value

describe('an envelope', () => {
  it('gives every value back, with the order of its names', () => {
    fc.assert(
      fc.property(value, (message) => {
        const back = readEnvelope(writeEnvelope(message))
        expect(back).toStrictEqual(message)
        expect(namesOf(back)).toEqual(namesOf(message))
      }),
    )
  })

  it('is refused whichever of its bits is wrong, and wherever it is cut', () => {
    const whole = writeEnvelope({ headers: { a: Buffer.of(1, 2), b: [null, ''] } })
    for (let bit = 0; bit < whole.byteLength * 8; bit += 1) {
      const wrong = Uint8Array.from(whole)
      wrong[bit >> 3] = (wrong[bit >> 3] ?? 0) ^ (1 << (bit & 7))
      expect(() => readEnvelope(wrong)).toThrow(EnvelopeError)
    }
    for (let length = 0; length < whole.byteLength; length += 1) {
      expect(() => readEnvelope(whole.subarray(0, length))).toThrow(EnvelopeError)
    }
  })

  it('of a later version says what to do', () => {
    const later = writeEnvelope('x')
    later[0] = 2
    expect(() => readEnvelope(later)).toThrow(/version 2.*Update onceward/)
  })

  // Whole by its digest, and yet not of our making.
  it.each<[string, object]>([
    ['[', { cause: expect.any(SyntaxError) }],
    ['[]', {}],
    ['[["z","x"]]', {}],
    ['[["a",2],1]', {}],
    ['[["o",1],"name"]', {}],
    ['[["i","x"]]', { cause: expect.any(SyntaxError) }],
  ])('that holds %s is damaged', (content, more) => {
    expect(() => readEnvelope(envelopeWith(content))).toThrow(
      expect.objectContaining({ message: expect.stringContaining('is damaged'), ...more }),
    )
  })

  it('holds ordinary values as JSON, and no date as no date', () => {
    expect(
      Buffer.from(writeEnvelope(['a', 1.5, true, null]))
        .subarray(9)
        .toString(),
    ).toBe('[["a",4],"a",1.5,true,null]')
    expect(readEnvelope(writeEnvelope(new Date(Number.NaN)))).toEqual(new Date(Number.NaN))
  })

  it('has no limit of depth', () => {
    let deep: unknown = 'end'
    for (let depth = 0; depth < 30_000; depth += 1) deep = { deep: [deep] }
    let back = readEnvelope(writeEnvelope(deep))
    for (let depth = 0; depth < 30_000; depth += 1) {
      back = (back as { readonly deep: readonly unknown[] }).deep[0]
    }
    expect(back).toBe('end')
  })

  it('takes a value twice, but not one within itself; a message of odd making has none', () => {
    const shared = { list: [1] }
    expect(readEnvelope(writeEnvelope([shared, shared]))).toEqual([shared, shared])
    const itself: unknown[] = []
    itself.push([itself])
    expect(() => writeEnvelope(itself)).toThrow(EnvelopeError)
    expect(envelopeOf(itself)).toBeUndefined()
    const thrower = Object.defineProperty({}, 'x', {
      enumerable: true,
      get: () => {
        throw new Error('no')
      },
    })
    expect(envelopeOf(thrower)).toBeUndefined()
    expect(readEnvelope(writeEnvelope({ f: () => 1 }))).toStrictEqual({ f: undefined })
  })
})

function envelopeWith(text: string): Buffer {
  const content = Buffer.from(text)
  const digest = createHash('sha256').update(content).digest().subarray(0, 8)
  return Buffer.concat([Buffer.of(1), digest, content])
}

const envelopeOf = (message: unknown): Uint8Array | undefined =>
  withEnvelope(toDelivery(1), () => message).envelope

describe('the envelope of a delivery', () => {
  it('is made when it is read, and a spread copies it', () => {
    let made = 0
    const delivery = withEnvelope(toDelivery(1), () => {
      made += 1
      return { made }
    })
    expect(made).toBe(0)
    const copy = { ...delivery }
    expect(made).toBe(1)
    expect(readEnvelope(copy.envelope ?? Uint8Array.of())).toEqual({ made: 1 })
    expect(Object.keys(copy)).toEqual(Object.keys(delivery))
    expect(made).toBe(1)
  })
})

function namesOf(of: unknown): unknown {
  if (Array.isArray(of)) return of.map(namesOf)
  if (typeof of !== 'object' || of === null) return null
  if (of instanceof Uint8Array || of instanceof Date) return null
  return Object.entries(of).map(([name, each]) => [name, namesOf(each)])
}
