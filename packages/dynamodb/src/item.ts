import type { AttributeValue } from '@aws-sdk/client-dynamodb'
import { type Json, StoreUnavailableError } from '@onceward/core'
import {
  type EventId,
  type EventState,
  type Fingerprint,
  fromJsonText,
  type OwnerToken,
  toJsonText,
} from '@onceward/core/ports'
import type { ResolvedDynamoOptions } from './options.ts'

/** What DynamoDB has of one event. */
export interface Entry {
  readonly state: EventState
  /** Changes with every write. Undefined if there is no item. */
  readonly version: string | undefined
  /** After this instant the event is unknown again, ms since 1970. */
  readonly forgetAtMs: number
}

export const ABSENT: Entry = { state: { kind: 'absent' }, version: undefined, forgetAtMs: 0 }

export type Item = Readonly<Record<string, AttributeValue>>
type Names = Pick<ResolvedDynamoOptions, 'keyAttribute' | 'ttlAttribute'>

export const keyOf = (id: EventId, { keyAttribute }: Names): Record<string, AttributeValue> => ({
  [keyAttribute]: { S: id },
})

export function toItem(
  id: EventId,
  { state, version, forgetAtMs }: Entry,
  names: Names,
): Record<string, AttributeValue> {
  const attributes: Record<string, AttributeValue> = {
    ...keyOf(id, names),
    // DynamoDB deletes by the second, and may do so some days later.
    [names.ttlAttribute]: { N: String(Math.ceil(forgetAtMs / 1_000)) },
    forgetAt: { N: String(forgetAtMs) },
    version: { S: String(version) },
  }
  for (const [name, value] of Object.entries(state)) {
    const attribute = toAttribute(name, value)
    if (attribute !== undefined) attributes[name === 'kind' ? 'state' : name] = attribute
  }
  return attributes
}

function toAttribute(name: string, value: unknown): AttributeValue | undefined {
  if (value === undefined) return undefined
  if (name === 'result') return { S: toJsonText(value) }
  if (typeof value === 'boolean') return { BOOL: value }
  if (typeof value === 'number') return { N: String(value) }
  return { S: String(value) }
}

/** @throws {@link StoreUnavailableError} if the item is not one of onceward. */
export function toEntry(item: Item | undefined): Entry {
  if (item === undefined) return ABSENT
  const version = item.version?.S
  const state = STATES[item.state?.S ?? '']?.(item)
  if (version === undefined || state === undefined) {
    throw new StoreUnavailableError(
      'DynamoDB has an item under the id of an event that onceward did not write, or a newer version did. Give onceward a table of its own.',
    )
  }
  return { version, state, forgetAtMs: numberOf(item.forgetAt) }
}

const STATES: Readonly<Record<string, (item: Item) => EventState>> = {
  'in-progress': (item) => ({
    ...{ kind: 'in-progress', owner: textOf(item.owner) as OwnerToken },
    ...{ leaseUntil: numberOf(item.leaseUntil), attempt: numberOf(item.attempt) },
    ...{ by: textOf(item.by) as 'first', fingerprint: fingerprintOf(item) },
    parked: item.parked?.BOOL === true,
  }),
  waiting: (item) => ({
    ...{ kind: 'waiting', notBefore: numberOf(item.notBefore), attempt: numberOf(item.attempt) },
    ...{ fingerprint: fingerprintOf(item), parked: item.parked?.BOOL === true },
  }),
  done: (item) => ({
    ...{ kind: 'done', fingerprint: fingerprintOf(item) },
    result: item.result?.S === undefined ? undefined : (fromJsonText(item.result.S) as Json),
  }),
  dead: (item) => ({
    ...{ kind: 'dead', reason: textOf(item.reason) as 'fatal', attempt: numberOf(item.attempt) },
    fingerprint: fingerprintOf(item),
  }),
}

const textOf = (attribute: AttributeValue | undefined): string => attribute?.S ?? ''
const numberOf = (attribute: AttributeValue | undefined): number => Number(attribute?.N ?? 0)
const fingerprintOf = ({ fingerprint }: Item): Fingerprint =>
  BigInt(fingerprint?.S ?? 0) as Fingerprint
