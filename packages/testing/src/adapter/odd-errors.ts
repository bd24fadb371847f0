/** What a client or a function of the user may throw, each with its name. */
export const ODD_ERRORS: readonly (readonly [string, unknown])[] = [
  ...[undefined, null, '', 0, Symbol('x'), {}].map((value) => [String(value), value] as const),
  ['an object without a prototype', Object.create(null)],
  ['a code that is no text', Object.assign(new Error('x'), { code: {} })],
  ['a message of five million characters', new Error('x'.repeat(5_000_000))],
]

/** As Node rejects a connection to a host with two addresses, such as localhost: only its members have a message. */
export function refusedByBothAddresses(): AggregateError {
  const members = ['127.0.0.1:1', '::1:1'].map((address) =>
    Object.assign(new Error(`connect ECONNREFUSED ${address}`), { code: 'ECONNREFUSED' }),
  )
  return Object.assign(new AggregateError(members), { code: 'ECONNREFUSED' })
}
