import { ConfigurationError } from '../model/errors.ts'
import { hash } from '../node.ts'

const LENGTH_BYTES = 4

/**
 * The region where the events of a key are processed: one home for each key, found without a lookup (rendezvous hashing).
 *
 * Every process that has the same list of regions answers the same, in this version and in all later ones. The order of
 * the list does not matter. If a region is removed, only the keys that lived there move; if one is added, it takes an equal
 * share of keys from each of the others. Keep the list in your configuration and change it in all regions together: two
 * lists at the same time are two homes for some keys.
 *
 * The home is the region whose SHA-256 is the largest, compared byte by byte. Hashed are two fields one after the other,
 * the region and the key, each a 4-byte big-endian count of its UTF-8 bytes followed by these bytes. A tie would need two
 * regions with one SHA-256.
 *
 * @param key - What has a home: the key of the event, or the part of it that must stay together, such as the account.
 * @param regions - Names of all regions that may be a home now.
 * @throws {@link ConfigurationError} if the list is empty, or a name in it is empty or is there twice.
 *
 * @example
 * ```ts
 * import { homeRegion } from '@onceward/core'
 *
 * const home = homeRegion('account-17', ['eu-west-1', 'us-east-1'])
 * ```
 */
export function homeRegion(key: string, regions: readonly string[]): string {
  refuse(key, regions)
  let home = { region: '', score: '' }
  for (const region of regions) {
    const score = scoreOf(region, key)
    // Hex digits sort as the bytes do.
    if (score > home.score) home = { region, score }
  }
  return home.region
}

function scoreOf(...fields: readonly string[]): string {
  const parts = fields.flatMap((field) => {
    const bytes = Buffer.from(field, 'utf8')
    const length = Buffer.alloc(LENGTH_BYTES)
    length.writeUInt32BE(bytes.length)
    return [length, bytes]
  })
  return hash('sha256', Buffer.concat(parts), 'hex')
}

function refuse(key: string, regions: readonly string[]): void {
  if (typeof key !== 'string') {
    throw new ConfigurationError(
      `Expected homeRegion to get a key that is a string, got ${typeof key}. Write \`String(key)\`.`,
    )
  }
  if (!Array.isArray(regions) || regions.length === 0) {
    throw new ConfigurationError(
      "Expected homeRegion to get a list with at least one region, got none. Write the names of all regions, for example `['eu-west-1', 'us-east-1']`.",
    )
  }
  if (!regions.every((region) => typeof region === 'string' && region !== '')) {
    throw new ConfigurationError(
      'Expected each region of homeRegion to be a string that is not empty. Remove the others.',
    )
  }
  if (new Set(regions).size !== regions.length) {
    throw new ConfigurationError(
      'Expected the regions of homeRegion to differ, but one is in the list twice. Remove the copy.',
    )
  }
}
