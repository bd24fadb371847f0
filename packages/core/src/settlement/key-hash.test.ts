import { createHmac } from 'node:crypto'
import { expect, test } from 'vitest'
import { hashKey } from './key-hash.ts'

const secret = new Uint8Array(32).fill(7)

test('the hash is short hex, equal for equal keys and secrets, and different otherwise', () => {
  const hash = hashKey(secret, 'order-1')
  expect(hash).toMatch(/^[0-9a-f]{16}$/)
  expect(hashKey(secret, 'order-1')).toBe(hash)
  expect(hashKey(secret, 'order-2')).not.toBe(hash)
  expect(hashKey(new Uint8Array(32).fill(8), 'order-1')).not.toBe(hash)
})

test.each([0, 1, 32, 64, 65, 200])(
  'the hash equals the HMAC of node:crypto, for a secret of %i bytes',
  (size) => {
    const own = new Uint8Array(size).fill(9)
    for (const key of ['', 'order-1', 'ä\u0000\ud83d\ude00', 'x'.repeat(1_024)]) {
      const expected = createHmac('sha256', own).update(key, 'utf8').digest('hex').slice(0, 16)
      expect(hashKey(own, key)).toBe(expected)
    }
  },
)
