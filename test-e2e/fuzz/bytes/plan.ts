import { BROKER_NAMES, type BrokerName } from '../../brokers/index.ts'
import { type Dice, diceOf } from '../../support/dice.ts'
import { BODIES, SECRET } from './bodies.ts'

/** Whose messages the cases are. `plain`: a delivery that the user made, without an envelope. */
export type Origin = BrokerName | 'plain'
export const ORIGINS: readonly Origin[] = [...BROKER_NAMES, 'plain']

/** One message, as plain data from which its bytes are made. */
export interface Case {
  /** Also the queue that the message comes from. */
  readonly name: string
  readonly origin: Origin
  readonly body: { readonly kind: string; readonly size: number; readonly salt: number }
  /** Where the key is, and its JSON text. */
  readonly key: { readonly where: 'header' | 'body'; readonly json: string }
  readonly headers: readonly { readonly name: string; readonly value: string }[]
  /** `fatal`: until the test has mended the cause. */
  readonly handler: 'ok' | 'fatal'
}

export interface Plan {
  readonly seed: number
  readonly cases: readonly Case[]
}

const CASES = 12

/** Keys of every type and length. Several are alike for a careless comparison. */
const KEYS: readonly string[] = [
  ...['"a"', '"a "', '"A"', '"\\u00e1"', '"a\\u0301"', '"a\\u0000"', '"a\\u0000b"', '"%61"'],
  ...['"1"', '"01"', '"1.0"', '1', '-1', '0', '-0', '1.5', '1e3', '9007199254740993', '1e400'],
  ...['"__proto__"', '"constructor"', '"toString"', '"null"', '"undefined"', '"\\ud83d\\ude00"'],
  ...['null', 'true', 'false', '""', '[]', '{}', '["a"]', '"\\ud800"', '"\\udc00\\ud800"'],
  ...[`"${'k'.repeat(1_024)}"`, `"${'k'.repeat(1_025)}"`, `"${'é'.repeat(512)}"`],
  ...[`"${'é'.repeat(513)}"`, `"${SECRET}-key"`, '"\'; drop table effects; --"'],
]

const NAMES: readonly string[] = [
  ...['a', 'A', '', ' ', '__proto__', 'constructor', 'toString', 'ünïcode', 'n'.repeat(255)],
  ...['content-type', 'Content-Type', 'ce_id', 'ce_source', 'idempotency-key', 'CC', 'BCC'],
  ...['x-death', 'x-delivery-count', 'x-first-death-queue', 'x-order-key', 'traceparent'],
  ...['x-onceward-deferrals', 'x-onceward-kept-headers', 'x-onceward-exchange'],
  ...['x-onceward-routing-key', 'x-onceward-expiration', 'x-onceward-delivery-mode'],
  ...['x-onceward-reason', 'x-onceward-id', 'x-onceward-publish-id', 'X-Onceward-Consumer'],
]

/** The kinds of header values, by the names that `messages.ts` knows. */
const VALUES: readonly string[] = [
  ...['text', 'empty', 'long', 'nul', 'surrogate', 'number', 'big', 'boolean', 'null'],
  ...['bytes', 'latin1', 'list', 'table', 'deep', 'date', 'json', 'number-text'],
]

/** Most bodies are small, because small ones find most. */
const SIZES = [0, 1, 20, 200, 200, 3_000, 3_000, 40_000, 250_000, 1_000_000] as const

export function planOf(seed: number): Plan {
  const dice = diceOf(seed)
  const cases = Array.from({ length: CASES }, (_, index) => caseOf(`c${index}`, dice))
  return { seed, cases }
}

function caseOf(name: string, dice: Dice): Case {
  const pick = <Item>(items: readonly Item[]): Item => dice.pick(items) as Item
  const many = dice.next() < 0.05
  const count = many ? 200 : Math.floor(dice.next() * 5)
  return {
    name,
    origin: pick(ORIGINS),
    body: {
      kind: pick(Object.keys(BODIES)),
      size: pick(SIZES),
      salt: Math.floor(dice.next() * 1_000_000),
    },
    key: { where: pick(['header', 'body']), json: keyOf(name, pick(KEYS), dice) },
    headers: Array.from({ length: count }, (_, index) => ({
      name: `${pick(NAMES)}${many ? index : ''}`,
      value: pick(VALUES),
    })),
    handler: dice.next() < 0.4 ? 'fatal' : 'ok',
  }
}

/** Half of the keys are their case's own, so that most cases get as far as the handler. */
function keyOf(name: string, json: string, dice: Dice): string {
  return dice.next() < 0.5 ? JSON.stringify(`${SECRET}-${name}`) : json
}
