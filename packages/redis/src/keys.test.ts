import type { EventId, Fingerprint } from '@onceward/core/ports'
import { describe, expect, test } from 'vitest'
import {
  boundTo,
  bucketKeys,
  fingerprintBytes,
  idOf,
  keyOf,
  keyText,
  marksPattern,
  type Namespace,
} from './keys.ts'

const id = '0a1b2c3d-4e5f-8061-9283-a4b5c6d7e8f9' as EventId
const namespace: Namespace = { name: 'shop', markMs: 3_600_000, bucketSecret: 's', keepMs: 1_000 }

// Guards of other versions look at the same keys: they are these, byte for byte.
describe('the keys of an event', () => {
  test('are those of its lease and of its done marks', () => {
    expect(keyOf(namespace, id)).toEqual(
      Buffer.concat([
        Buffer.from('{o:shop:0a}e'),
        Buffer.from('0a1b2c3d4e5f80619283a4b5c6d7e8f9', 'hex'),
      ]),
    )
    expect(keyText(namespace, id)).toBe(
      String.raw`"{o:shop:0a}e\x0a\x1b\x2c\x3d\x4e\x5f\x80\x61\x92\x83\xa4\xb5\xc6\xd7\xe8\xf9"`,
    )
    expect(bucketKeys(namespace, id)).toEqual(['{o:shop:0a}m255s0:1:0', '{o:shop:0a}m255s0:1:1'])
    expect(marksPattern(namespace, id)).toBe('{o:shop:0a}m*')
  })

  test('are the same for an id in capitals', () => {
    const capitals = id.toUpperCase() as EventId
    expect(keyOf(namespace, capitals)).toEqual(keyOf(namespace, id))
    expect(bucketKeys(namespace, capitals)).toEqual(bucketKeys(namespace, id))
    expect(marksPattern(namespace, capitals)).toBe(marksPattern(namespace, id))
  })

  // Red when bytes that are dropped give two events one key.
  test.each([
    ...['', 'x', `${id}0`, `0${id}`, id.replaceAll('-', ''), id.slice(1), id.replace('a', 'g')],
    ...[id.replace('-4e5f', '-4e5'), id.replace('-4e5f', ''), `${id}\n`],
  ])('are refused for what is no id: %j', (odd) => {
    expect(() => keyOf(namespace, odd as EventId)).toThrow(TypeError)
    expect(() => keyOf(namespace, odd as EventId)).toThrow(/Expected an event id/)
  })
})

test('the buckets of a partition are 64, and which one it is depends on the secret', () => {
  const idsOfOne = Array.from({ length: 2_000 }, (_, n) => {
    const last = n.toString(16).padStart(12, '0')
    return `0a1b2c3d-4e5f-8061-9283-${last}` as EventId
  })
  const bucketsWith = (bucketSecret: string): readonly string[] =>
    idsOfOne.map((each) => String(bucketKeys({ ...namespace, bucketSecret }, each)[0]))
  const buckets = bucketsWith('s')
  expect(new Set(buckets).size).toBe(64)
  expect(bucketsWith('other')).not.toEqual(buckets)
})

test('an id comes back from its partition and the field of its done mark', () => {
  const hex = id.replaceAll('-', '')
  expect(idOf(hex.slice(0, 2), hex.slice(2))).toBe(id)
})

test.each([
  [0n, '0000000000000000'],
  [1n, '0000000000000001'],
  [-1n, 'ffffffffffffffff'],
  [2n ** 63n, '8000000000000000'],
  [2n ** 64n + 1n, '0000000000000001'],
])('the fingerprint %i is stored as the bytes %s', (fingerprint, hex) => {
  expect(fingerprintBytes(fingerprint as Fingerprint).toString('hex')).toBe(hex)
})

test('a namespace is bound to one history by its name and by the secret of its buckets', () => {
  const bound = boundTo('epoch-1', namespace)
  expect(bound).toEqual({
    ...namespace,
    name: 'shop.rmILWTyoGEtWJC-B',
    bucketSecret: 'gFoMO7yRbQBlzCdDJ_e7DAGs4-E',
  })
  expect(boundTo('epoch-1', namespace)).toEqual(bound)
  const other = boundTo('epoch-2', namespace)
  expect(other.name).not.toBe(bound.name)
  expect(other.bucketSecret).not.toBe(bound.bucketSecret)
})
