import type { DecodedDelivery } from '@onceward/core'

/** The text that stands for a pattern: `{ cmd: 'a' }` and `{"cmd":"a"}` are the same. */
export function routeOf(pattern: unknown): string {
  return typeof pattern === 'object' ? JSON.stringify(sorted(pattern)) : String(pattern)
}

const sorted = (value: unknown): unknown => {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return value
  const entries = Object.entries(value).toSorted(([one], [other]) => (one < other ? -1 : 1))
  return Object.fromEntries(entries.map(([name, each]) => [name, sorted(each)]))
}

/** What Nest's own clients send: `client.emit('order.placed', data)`. */
interface NestEnvelope {
  readonly pattern: unknown
  readonly data: unknown
}

function envelopeOf(payload: unknown): NestEnvelope | undefined {
  const isEnvelope =
    typeof payload === 'object' && payload !== null && 'pattern' in payload && 'data' in payload
  return isEnvelope ? (payload as NestEnvelope) : undefined
}

/** What the handler of a pattern gets. */
export const dataOf = (payload: unknown): unknown => {
  const envelope = envelopeOf(payload)
  return envelope === undefined ? payload : envelope.data
}

const HEADERS = ['pattern', 'ce-type', 'ce_type', 'cloudevents:type', 'type']

/** What may name the pattern of a message, the most telling first. */
export function patternsOf({
  headers,
  payload,
  source,
}: DecodedDelivery<unknown>): readonly string[] {
  const envelope = envelopeOf(payload)
  if (envelope !== undefined) return [routeOf(envelope.pattern)]
  const named = HEADERS.map((name) => headers[name]).filter((value) => value !== undefined)
  const inBody = [Reflect.get(Object(payload), 'type'), Reflect.get(Object(payload), 'detail-type')]
  const typed = inBody.filter((value): value is string => typeof value === 'string')
  return [...named, ...typed, source.queue]
}
