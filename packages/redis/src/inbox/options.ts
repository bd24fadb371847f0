import { ConfigurationError } from '@onceward/core'
import { refuseUnknownNames, shown } from '@onceward/core/adapter'
import { DEFAULTS, NAMESPACE } from '../options.ts'

/** Options of {@link redisInbox}. */
export interface RedisInboxOptions {
  /**
   * The hash tag that all keys have, of onceward and of the handlers: `{shop}stock:7` has the tag `shop`. Needed on a
   * Cluster, where mark and effect must be in one slot. A key without it is refused. Choose it once: the events of another
   * tag are not found.
   * @defaultValue none: any key, and not on a Cluster
   */
  readonly hashTag?: string | undefined
  /**
   * Part of every key of onceward, for several systems on one Redis.
   * @defaultValue `onceward`
   */
  readonly namespace?: string | undefined
}

export interface ResolvedInboxOptions {
  readonly hashTag: string | undefined
  readonly namespace: string
}

/** @throws {@link ConfigurationError} */
export function inboxOptions(options: RedisInboxOptions): ResolvedInboxOptions {
  refuseUnknownNames('redisInbox', options, { hashTag: true, namespace: true })
  const { hashTag, namespace = DEFAULTS.namespace } = options
  for (const [name, value] of Object.entries({ hashTag, namespace })) {
    if (value === undefined || (typeof value === 'string' && NAMESPACE.test(value))) continue
    throw new ConfigurationError(
      `Expected \`${name}\` to be 1 to 64 of A-Z a-z 0-9 . _ : -, got \`${shown(String(value))}\`.`,
    )
  }
  return { hashTag, namespace }
}
