import { ConfigurationError } from '@onceward/core'
import { refuseUnknownNames, shown } from '@onceward/core/adapter'

/** Options of {@link dynamoLeases}. */
export interface DynamoLeasesOptions {
  /** Name or ARN of the table. Its partition key is text, and it has no sort key. */
  readonly table: string
  /**
   * Name of the partition key.
   * @defaultValue `id`
   */
  readonly keyAttribute?: string | undefined
  /**
   * Name of the attribute with the time in seconds after which DynamoDB may delete the item: the one that the time to
   * live of the table names. An expired item that is still there counts as deleted.
   * @defaultValue `expiresAt`
   */
  readonly ttlAttribute?: string | undefined
  /**
   * Most that the clocks of two processes differ, ms. DynamoDB has no clock that a condition can ask, so a lease ends
   * this much later for everybody.
   * @defaultValue 1000
   */
  readonly clockSkewMs?: number | undefined
  /**
   * Longest wait for one answer of DynamoDB with all repetitions of the SDK, ms.
   * @defaultValue 5000
   */
  readonly budgetMs?: number | undefined
}

/** {@link DynamoLeasesOptions} after validation. */
export type ResolvedDynamoOptions = {
  readonly [Name in keyof DynamoLeasesOptions]-?: Exclude<DynamoLeasesOptions[Name], undefined>
}

/** @throws {@link ConfigurationError} */
export function dynamoOptions(options: DynamoLeasesOptions): ResolvedDynamoOptions {
  refuseUnknownNames('dynamoLeases', options, {
    ...{ table: true, keyAttribute: true, ttlAttribute: true, clockSkewMs: true, budgetMs: true },
  })
  const { table, keyAttribute = 'id', ttlAttribute = 'expiresAt' } = options
  const { clockSkewMs = 1_000, budgetMs = 5_000 } = options
  for (const [name, value] of Object.entries({ table, keyAttribute, ttlAttribute })) {
    if (typeof value === 'string' && value !== '') continue
    throw new ConfigurationError(
      `Expected \`${name}\` of dynamoLeases to be a text, got ${typeof value}.`,
    )
  }
  for (const [name, value] of Object.entries({ keyAttribute, ttlAttribute })) {
    if (!OWN_ATTRIBUTES.has(value)) continue
    throw new ConfigurationError(
      `\`${name}\` of dynamoLeases is "${shown(value)}", which is an attribute of onceward itself. Give it another name.`,
    )
  }
  if (keyAttribute === ttlAttribute) {
    throw new ConfigurationError('`keyAttribute` and `ttlAttribute` of dynamoLeases are the same.')
  }
  demandInteger('clockSkewMs', clockSkewMs, [0, 600_000])
  demandInteger('budgetMs', budgetMs, [1, 60_000])
  return { table, keyAttribute, ttlAttribute, clockSkewMs, budgetMs }
}

/** The attributes of an item beside its key and its end of life. */
export const OWN_ATTRIBUTES: ReadonlySet<string> = new Set([
  ...['state', 'version', 'fingerprint', 'forgetAt', 'owner', 'leaseUntil', 'notBefore'],
  ...['attempt', 'by', 'parked', 'result', 'reason'],
])

function demandInteger(
  name: string,
  value: number,
  [least, most]: readonly [number, number],
): void {
  if (Number.isInteger(value) && value >= least && value <= most) return
  throw new ConfigurationError(
    `Expected \`${name}\` of dynamoLeases to be an integer from ${least} to ${most}, got \`${shown(String(value))}\` (${typeof value}). Units are milliseconds.`,
  )
}
