import type { Delivery } from '@onceward/core'
import { toDelivery } from '@onceward/core/memory'
import { BROKER_NAMES, BROKERS } from '../../brokers/index.ts'
import { bodyOf, SECRET } from './bodies.ts'
import { type Headers, type MessageMaker, textOf } from './message-maker.ts'
import type { Case } from './plan.ts'

/** The header that may hold the key. */
export const KEY_HEADER = 'fuzz-key'

const DEEP = Array.from({ length: 400 }).reduce<unknown>((inner) => ({ inner }), SECRET)

/** What stands in a header, for a client that passes on anything. */
const VALUES: Readonly<Record<string, unknown>> = {
  text: `${SECRET} é😀`,
  empty: '',
  long: SECRET.repeat(5_000),
  nul: `${SECRET}\0`,
  surrogate: `${SECRET}\ud800`,
  number: 1.5,
  'number-text': '3',
  big: 9_007_199_254_740_993n,
  boolean: true,
  null: null,
  bytes: Buffer.from([0xff, 0, 1]),
  latin1: Buffer.from(`${SECRET} é`, 'latin1'),
  list: [1, SECRET, null, [Buffer.from([0xff])]],
  table: JSON.parse(`{"a":"${SECRET}","__proto__":{"b":null}}`),
  deep: DEEP,
  date: new Date(Number.NaN),
  json: `{"${SECRET}":1}`,
}

/** The key, if it stands in a header. Headers hold text, so other types stand in the body alone. */
function keyHeader({ key }: Case): Headers {
  const value: unknown = key.where === 'header' ? JSON.parse(key.json) : undefined
  return typeof value === 'string' ? [[KEY_HEADER, value]] : []
}

/** The delivery that the adapter of the case's broker makes of the client's message. */
export function deliveryOf(one: Case): Delivery {
  const key = one.key.where === 'body' ? one.key.json : 'null'
  const body = bodyOf(one.body, key)
  const drawn = one.headers.map(({ name, value }) => [name, VALUES[value]] as const)
  return makerOf(one).toDelivery(one.name, body, [...drawn, ...keyHeader(one)])
}

/** A delivery that the user made. */
const PLAIN: MessageMaker = {
  toDelivery: (name, body, headers) => {
    const texts = headers.map(([header, value]) => [header.toLowerCase(), textOf(value)] as const)
    const source = { broker: 'own', queue: name, position: '0' }
    return toDelivery(null, { body, headers: Object.fromEntries(texts), source })
  },
  messageOf: () => undefined,
}

const MAKERS: ReadonlyMap<string, MessageMaker> = new Map(
  await Promise.all(BROKER_NAMES.map(async (name) => [name, await BROKERS[name].bytes()] as const)),
)

const makerOf = ({ origin }: Case): MessageMaker => MAKERS.get(origin) ?? PLAIN

/** The client's message of a delivery, also of a stored one. */
export const messageOf = (one: Case, delivery: Delivery): unknown =>
  makerOf(one).messageOf(delivery)
