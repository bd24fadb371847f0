import { createHash } from 'node:crypto'
import { describe, expect, test } from 'vitest'
import { randomText, seededRandom } from '../fixtures/random.ts'
import { eventIdOf } from './event-id.ts'

/** The definition once more, byte by byte. */
function byDefinition(consumer: string, tenant: string | undefined, key: string): string {
  const bytes: number[] = []
  for (const field of [consumer, tenant ?? '', key]) {
    const utf8 = new TextEncoder().encode(field)
    const { length } = utf8
    bytes.push((length >>> 24) & 255, (length >>> 16) & 255, (length >>> 8) & 255, length & 255)
    bytes.push(...utf8)
  }
  const hex = createHash('sha256').update(Uint8Array.from(bytes)).digest('hex')
  return [
    hex.slice(0, 8),
    hex.slice(8, 12),
    hex.slice(12, 16),
    hex.slice(16, 20),
    hex.slice(20, 32),
  ].join('-')
}

test('never changes: a changed id is a second effect for every event in flight', () => {
  expect(eventIdOf('billing', undefined, 'order-1')).toBe('58b37a95-9162-ac14-8222-e0f7a3924104')
  expect(eventIdOf('billing', 'acme', 'order-1')).toBe('2c4bab84-ee93-0a5b-e12d-700256b63285')
  expect(eventIdOf('billing', undefined, '🍏\u0000é')).toBe('5b66fcdf-a1e8-54a3-ebf9-946242565e23')
})

test('follows the definition for 10,000 keys of any Unicode', () => {
  const random = seededRandom(20_260_101)
  const ids = new Set<string>()
  for (let round = 0; round < 10_000; round++) {
    const consumer = randomText(random, 8)
    const tenant = random() < 0.5 ? undefined : randomText(random, 8)
    const key = `${round}:${randomText(random)}`
    const id = eventIdOf(consumer, tenant, key)
    expect(id, JSON.stringify([consumer, tenant, key])).toBe(byDefinition(consumer, tenant, key))
    ids.add(id)
  }
  expect(ids.size).toBe(10_000)
})

// Red when the count of a long field is hashed as the text of a character.
test.each([126, 127, 128, 129, 255, 256])(
  'follows the definition for fields of %i bytes',
  (bytes) => {
    const wide = 'é'.repeat(bytes / 2).padStart(bytes - Math.floor(bytes / 2), 'k')
    for (const field of ['k'.repeat(bytes), wide]) {
      expect(eventIdOf(field, undefined, 'k')).toBe(byDefinition(field, undefined, 'k'))
      expect(eventIdOf('c', field, 'k')).toBe(byDefinition('c', field, 'k'))
      expect(eventIdOf('c', undefined, field)).toBe(byDefinition('c', undefined, field))
    }
  },
)

describe('two identities never share an id', () => {
  type Identity = Parameters<typeof eventIdOf>
  const pairs: readonly (readonly [Identity, Identity])[] = [
    [
      ['ab', undefined, 'c'],
      ['a', undefined, 'bc'],
    ],
    [
      ['a', 'b', 'c'],
      ['a', undefined, 'bc'],
    ],
    [
      ['a', 'bc', 'd'],
      ['a', 'b', 'cd'],
    ],
    [
      ['a', undefined, 'é'],
      ['a', undefined, 'e\u0301'],
    ],
  ]
  test.each(pairs)('%j and %j', (one, other) => {
    expect(eventIdOf(...one)).not.toBe(eventIdOf(...other))
  })
  test('acceptance A7: the same key of two consumers', () => {
    expect(eventIdOf('billing', undefined, 'k')).not.toBe(eventIdOf('shipping', undefined, 'k'))
  })
})

test('takes no tenant and the empty tenant for the same', () => {
  expect(eventIdOf('a', undefined, 'k')).toBe(eventIdOf('a', '', 'k'))
})
