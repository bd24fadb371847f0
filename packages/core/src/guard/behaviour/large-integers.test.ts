import { describe, expect, test } from 'vitest'
import { silent } from '../../fixtures/inbox.ts'
import { memoryInbox, memoryLeases, toDelivery } from '../../memory/index.ts'
import { losslessJson } from '../../messages/lossless-json.ts'
import type { Delivery } from '../../model/delivery.ts'
import type { Guard } from '../../model/guard-port.ts'
import { createGuard } from '../guard.ts'

const FIRST = '{"order":{"id":1234567890123456781}}'
const SECOND = '{"order":{"id":1234567890123456789}}'
const sent = (text: string): Delivery =>
  toDelivery(null, { body: Buffer.from(text), headers: {}, messageId: text })

type Payload = { readonly order: { readonly id: bigint | number } }

function start(given: object): { guard: Guard; ran: unknown[]; lines: unknown[] } {
  const ran: unknown[] = []
  const lines: unknown[] = []
  const warn = (fields: object, text: string): void => void lines.push([text, fields])
  const guard = createGuard(
    {
      ...{ consumer: 'billing', inbox: memoryInbox(), logger: { ...silent, warn } },
      eventKey: ({ payload }: { payload: Payload }) => String(payload.order.id),
      ...given,
    } as never,
    ({ payload, key }) => {
      const { id } = (payload as Payload).order
      ran.push([key, id])
      return { id: id as number }
    },
  )
  return { guard, ran, lines }
}

const parse = (body: Uint8Array): unknown => JSON.parse(Buffer.from(body).toString())
const ROUNDED = 'the body holds an integer that JavaScript rounds'

// Red before: the first was charged under a key of its own invention, without a word.
describe.each([
  ['the default', {}],
  ["a decoder of the user's", { decode: parse }],
  ['leases alone', { inbox: undefined, leases: memoryLeases(), onTakeover: 'retry' }],
])('with %s, an integer that JavaScript rounds', (_name, given) => {
  test('is warned of once for its path, and the conflict names it', async () => {
    const { guard, lines } = start(given)
    expect(await guard.process(sent(FIRST))).toMatchObject({ by: 'processed' })
    expect(await guard.process(sent(SECOND))).toMatchObject({
      reason: 'fingerprint-mismatch',
      error: { message: expect.stringMatching(/`order\.id`.*losslessJson\(\)/) },
    })
    const other = '{"order":{"id":1},"lines":[{"id":9007199254740993}]}'
    await guard.process(sent(other))
    const warnings = lines.filter((line) => String(line).startsWith(ROUNDED))
    expect(warnings).toEqual([
      [expect.stringContaining('losslessJson()'), { consumer: 'billing', path: 'order.id' }],
      [expect.stringContaining('losslessJson()'), { consumer: 'billing', path: 'lines[].id' }],
    ])
    await guard.close()
  })
})

test.each(['body', 'none', ({ order }: Payload) => order.id])(
  'losslessJson() makes bigints of them: two events, whose results are replayed to the digit (%s)',
  async (fingerprint) => {
    const results: unknown[] = []
    const { guard, lines, ran } = start({
      ...{ decode: losslessJson(), fingerprint },
      eventKey: ({ payload }: { payload: Payload }) => payload.order.id,
      afterCommit: (result: unknown) => void results.push(result),
    })
    for (const text of [FIRST, SECOND, ` ${SECOND}`]) await guard.process(sent(text))
    const [first, second] = [1234567890123456781n, 1234567890123456789n]
    expect(ran).toEqual([
      [`${first}`, first],
      [`${second}`, second],
    ])
    expect(results).toEqual([{ id: first }, { id: second }, { id: second }])
    expect(lines).toEqual([])
    await guard.close()
  },
)

test('a key in quotes is warned of once', async () => {
  const eventKey = ({ payload }: { payload: { order: { id: unknown } } }) => payload.order.id
  const { guard, lines } = start({ eventKey })
  for (const id of ['"4d47"', '"4d48"', '4d47', '"'])
    await guard.process(sent(JSON.stringify({ order: { id } })))
  expect(lines).toEqual([
    [
      expect.stringContaining('begins and ends with a quote'),
      { consumer: 'billing', option: 'eventKey' },
    ],
  ])
  await guard.close()
})
