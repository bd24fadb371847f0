import { expect, onTestFinished, test } from 'vitest'
import { silent } from '../../fixtures/inbox.ts'
import { debezium, losslessJson, unwrapMassTransit, unwrapSns } from '../../index.ts'
import { memoryInbox, memoryLeases, toDelivery } from '../../memory/index.ts'
import { RetryableError } from '../../model/errors.ts'
import type { CommonOptions, Handler } from '../../options/options.ts'
import { createGuard } from '../guard.ts'

const sns = {
  ...{ Type: 'Notification', MessageId: 'm-1', TopicArn: 'arn:orders', Message: '{"a":1}' },
}
const own = (body: Uint8Array): unknown => ({ read: Buffer.from(body).toString() })
const ofAnotherSchema = (body: Uint8Array): unknown => ({ was: Buffer.from(body).toString() })

type Decode = CommonOptions<unknown, unknown>['decode']

const CHANGES: readonly (readonly [string, payload: unknown, before: Decode, after: Decode])[] = [
  [
    'losslessJson(), as the warning of a rounded integer advises',
    { id: 2 ** 60 },
    undefined,
    losslessJson(),
  ],
  ['unwrapSns()', sns, undefined, unwrapSns()],
  ['unwrapSns() with another decoder', sns, unwrapSns(), unwrapSns(losslessJson())],
  ['unwrapMassTransit()', { a: 1 }, undefined, unwrapMassTransit()],
  ['debezium()', { a: 1, __b: 2 }, undefined, debezium()],
  ['a first function of the user', { a: 1 }, undefined, own],
  ['another function of the user', { a: 1 }, own, ofAnotherSchema],
  ['none', { a: 1 }, own, undefined],
]

const STORES = {
  'an inbox': () => ({ inbox: memoryInbox() }),
  'leases alone': () => ({ leases: memoryLeases(), onTakeover: 'retry' as const }),
}

const guardWith = (
  stores: object,
  decode: Decode,
  handler: Handler<unknown, undefined>,
): ReturnType<typeof createGuard> => {
  const options = { consumer: 'billing', logger: silent, retry: { baseMs: 0 }, decode, ...stores }
  return createGuard(options as never, handler)
}

// Red when a change of `decode` keeps the version of the rule: every event that waits is a conflict, its effect never
// happens, and its replay conflicts again.
test.each(
  Object.entries(STORES).flatMap(([name, stores]) =>
    CHANGES.map((change) => [change[0], name, stores(), ...change.slice(1)] as const),
  ),
)('an event that waits runs after a change to %s, with %s', async (_name, _store, ...rest) => {
  const [stores, payload, before, after] = rest as unknown as [object, unknown, Decode, Decode]
  const delivery = toDelivery(payload, { headers: { 'idempotency-key': 'k' } })
  const old = guardWith(stores, before, () => {
    throw new RetryableError('not now')
  })
  onTestFinished(() => old.close())
  expect(await old.process(delivery)).toMatchObject({ kind: 'defer', reason: 'failed' })
  let ran = 0
  const changed = guardWith(stores, after, () => {
    ran += 1
  })
  onTestFinished(() => changed.close())
  expect(await changed.process(delivery)).toMatchObject({ kind: 'ack', by: 'processed' })
  // And what is done is a duplicate across the change.
  expect(await old.process(delivery)).toMatchObject({ kind: 'ack', by: 'duplicate' })
  expect(ran).toBe(1)
})
