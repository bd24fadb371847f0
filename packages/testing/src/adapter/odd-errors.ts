const boom = (): never => {
  throw new Error('boom')
}
const hiding = (value: object, name: string): object =>
  Object.defineProperty(value, name, { get: boom })

function revoked(): unknown {
  const { proxy, revoke } = Proxy.revocable({}, {})
  revoke()
  return proxy
}

/** What a client, a proxy around it or a function of the user may throw, each with its name. */
export const ODD_ERRORS: readonly (readonly [string, unknown])[] = [
  ...[undefined, null, '', 0, 1n, Symbol('x'), boom, {}].map(
    (value) => [String(value), value] as const,
  ),
  ['an object without a prototype', Object.create(null)],
  ['an object whose text throws', { toString: boom }],
  ['a revoked proxy', revoked()],
  ['a message that is no text', Object.assign(new Error(), { message: Object.create(null) })],
  ['a name that is no text', Object.assign(new Error(), { name: Symbol('x') })],
  ...['name', 'message', 'code', 'Code', 'type', 'cause'].flatMap((name) => [
    [`an error with a ${name} that throws`, hiding(new Error('x'), name)] as const,
    [`an object with a ${name} that throws`, hiding({}, name)] as const,
  ]),
  ['a message of five million characters', new Error('x'.repeat(5_000_000))],
]

/** As Node rejects a connection to a host with two addresses, such as localhost: only its members have a message. */
export function refusedByBothAddresses(): AggregateError {
  const members = ['127.0.0.1:1', '::1:1'].map((address) =>
    Object.assign(new Error(`connect ECONNREFUSED ${address}`), { code: 'ECONNREFUSED' }),
  )
  return Object.assign(new AggregateError(members), { code: 'ECONNREFUSED' })
}
