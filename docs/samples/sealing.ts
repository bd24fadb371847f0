import { createCipheriv, createDecipheriv, randomBytes } from 'node:crypto'
import type { Seal, SealContext } from '@onceward/core'

/** Binds a value to its place: what was sealed for one consumer or field does not open in another. */
const place = ({ consumer, field }: SealContext) => Buffer.from(`${consumer} ${field}`)

/**
 * AES-256-GCM. Stored: number of the key (1 byte), nonce (12), tag (16), ciphertext.
 *
 * @param keys - 32 bytes each, by number (0 to 255). Keep those that have sealed something that is stored.
 * @param current - The key that seals.
 */
export function aesSeal(keys: ReadonlyMap<number, Uint8Array>, current: number): Seal {
  const keyOf = (number: number): Uint8Array => {
    const key = keys.get(number)
    if (key === undefined) throw new Error(`there is no key ${number}`)
    return key
  }
  return {
    seal: (bytes, context) => {
      const nonce = randomBytes(12)
      const cipher = createCipheriv('aes-256-gcm', keyOf(current), nonce)
      cipher.setAAD(place(context))
      const sealed = [cipher.update(bytes), cipher.final()]
      return Buffer.concat([Uint8Array.of(current), nonce, cipher.getAuthTag(), ...sealed])
    },
    open: (bytes, context) => {
      const [number = 0] = bytes
      const decipher = createDecipheriv('aes-256-gcm', keyOf(number), bytes.subarray(1, 13))
      decipher.setAAD(place(context))
      decipher.setAuthTag(bytes.subarray(13, 29))
      return Buffer.concat([decipher.update(bytes.subarray(29)), decipher.final()])
    },
  }
}
