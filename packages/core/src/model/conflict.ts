import type { Fingerprint } from './brands.ts'

const VERSION_BITS = 8

/** Whether two fingerprints made by the same rule say that the payloads differ. */
export function isConflict(stored: Fingerprint, seen: Fingerprint): boolean {
  const version = BigInt.asUintN(VERSION_BITS, stored)
  return version !== 0n && version === BigInt.asUintN(VERSION_BITS, seen) && stored !== seen
}
