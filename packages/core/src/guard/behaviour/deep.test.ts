import { afterEach, describe, expect, test } from 'vitest'
import { silent } from '../../fixtures/inbox.ts'
import { memoryInbox, memoryLeases, toDelivery } from '../../memory/index.ts'
import { unwrapEventBridge, unwrapSns } from '../../messages/aws-envelopes.ts'
import { payloadHash } from '../../messages/resolvers.ts'
import type { Delivery } from '../../model/delivery.ts'
import type { Guard } from '../../model/guard-port.ts'
import type { Settlement } from '../../model/settlement.ts'
import type { CommonOptions, Handler } from '../../options/options.ts'
import { createGuard } from '../guard.ts'

/** JSON that `JSON.parse` reads, and that recursion does not survive. */
const LEVELS = 20_000
const OBJECTS = `${'{"a":'.repeat(LEVELS)}1e1${'}'.repeat(LEVELS)}`
const LISTS = `${'['.repeat(LEVELS)}${']'.repeat(LEVELS)}`
const inBridge = (detail: string): string =>
  `{"version":"0","id":"e-1","detail-type":"d","source":"s","account":"a","time":"t","region":"r","detail":${detail}}`
const inSns = (Message: string): string =>
  JSON.stringify({ Type: 'Notification', TopicArn: 'arn:t', MessageId: 'm-1', Message })

const opened: Guard[] = []
afterEach(async () => {
  for (const each of opened.splice(0)) await each.close()
})

const STORES = {
  'an inbox': () => ({ inbox: memoryInbox() }),
  'leases alone': () => ({ leases: memoryLeases(), onTakeover: 'retry' as const }),
}

const nothing: Handler<unknown, undefined> = () => undefined

describe.each(Object.entries(STORES))('with %s', (_stores, stores) => {
  async function processed(
    delivery: Partial<Delivery> & { readonly text?: string },
    given: Partial<CommonOptions<unknown, unknown>> = {},
    handler = nothing,
  ): Promise<Settlement> {
    const options = { consumer: 'billing', logger: silent, ...stores(), ...given }
    const guard = createGuard(options as never, handler)
    opened.push(guard)
    const { text = '{}', ...fields } = delivery
    return guard.process({ ...toDelivery('', fields), body: Buffer.from(text) })
  }

  test.each<[string, string, Partial<CommonOptions<unknown, unknown>>]>([
    ['of objects', OBJECTS, {}],
    ['of lists', LISTS, {}],
    ['whose hash is the key', OBJECTS, { eventKey: payloadHash() }],
    ['that a function compares', OBJECTS, { fingerprint: (payload) => payload }],
    ['that the user decodes', OBJECTS, { decode: (body) => JSON.parse(String(body)) as unknown }],
    ['in an SNS envelope', inSns(OBJECTS), { decode: unwrapSns() }],
    ['in an EventBridge event', inBridge(OBJECTS), { decode: unwrapEventBridge() }],
  ])('a body %s of any depth is processed', async (_what, text, given) => {
    expect(await processed({ text }, given)).toMatchObject({ kind: 'ack', by: 'processed' })
  })

  test('the detail of an EventBridge event that cannot be written again is dead-lettered with the reason', async () => {
    const decode = unwrapEventBridge((bytes) => String(bytes))
    expect(await processed({ text: inBridge(OBJECTS) }, { decode })).toMatchObject({
      kind: 'dead-letter',
      reason: 'invalid-payload',
      error: { message: expect.stringContaining('nests too deep') },
    })
  })

  // Red when the message cannot be recorded: it is then deferred as a failure of the store, again and again.
  test.each([
    ['deep', JSON.parse(OBJECTS) as unknown],
    ['a BigInt', 5n],
  ])('a message that is refused is dead-lettered although a header is %s', async (_what, a) => {
    const headers = { a } as Delivery['headers']
    expect(await processed({ headers })).toMatchObject({
      kind: 'dead-letter',
      reason: 'missing-event-key',
    })
    const keyed = { ...headers, 'idempotency-key': 'k' }
    expect(await processed({ headers: keyed, text: '{' })).toMatchObject({
      kind: 'dead-letter',
      reason: 'invalid-payload',
    })
  })

  test('a result of any depth that somebody reads is refused with the reason', async () => {
    const afterCommit = (): void => undefined
    const settlement = await processed({}, { afterCommit }, () => JSON.parse(OBJECTS))
    expect(settlement).toMatchObject({
      error: {
        code: expect.stringMatching(/^ONCEWARD_(RETRYABLE|FATAL)$/),
        message: expect.stringContaining('nests deeper than 1000 levels'),
      },
    })
  })
})
