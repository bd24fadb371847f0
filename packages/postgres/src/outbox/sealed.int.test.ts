import type { Seal } from '@onceward/core'
import { until } from '@onceward/testing'
import { expect, test } from 'vitest'
import { recording, text, useRelays } from '../fixtures/relays.ts'
import { SECRET, seals } from '../fixtures/sealed.ts'
import { sendWith } from './send-with.ts'

const relays = useRelays()

async function sent(seal: Seal | undefined, key: string, id: string): Promise<void> {
  const client = await relays.pool.connect()
  await client.query('begin')
  const headers = { 'content-type': 'application/vnd.order+json', 'x-iban': SECRET }
  const message = { to: 'bank', key, id, payload: { id, iban: SECRET }, headers }
  await sendWith(client, [message], { source: 'billing', ...(seal && { seal }) })
  await client.query('commit')
  client.release()
}

const rows = async (): Promise<readonly object[]> => {
  const text =
    'select message_id as id, state::text, attempt, error from onceward.outbox_messages order by position'
  return (await relays.pool.query(text)).rows
}

test.each([
  ['without seal', undefined, /nothing here can open it/],
  ['with another key', seals.new, /there is no key 1/],
])(
  'a relay %s holds sealed messages with those behind them, and sends and buries none',
  async (_, seal, why) => {
    await sent(seals.old, 'k', 'first')
    await sent(undefined, 'k', 'behind')
    await sent(undefined, 'other', 'free')
    const to = recording()
    const lines: unknown[] = []
    const note = (_fields: object, line: string): unknown => lines.push(line)
    const logger = { debug: () => undefined, info: () => undefined, warn: note, error: note }
    const over = { attempts: 1, baseMs: 10, maxMs: 20, logger, ...(seal && { seal }) }
    const relay = await relays.start({ bank: to.destination }, over)
    await until(() => to.got.length === 1, { what: 'the message of another key' })
    const held = [
      { id: 'first', state: 'w', attempt: 0, error: expect.stringMatching(why) },
      { id: 'behind', state: 'h', attempt: 0, error: null },
    ]
    // A message that its destination refuses once would be dead.
    await until(async () => expect(await rows()).toEqual(held), { what: 'both held' })
    await until(() => expect(relay.health().reason).toMatch(why), { what: 'a reason' })
    const due = async (): Promise<unknown> =>
      (
        await relays.pool.query(
          "select max(due_at) from onceward.outbox_messages where state = 'w'",
        )
      ).rows[0]
    const before = await due()
    await until(async () => expect(await due()).not.toEqual(before), { what: 'another try' })
    expect(await rows()).toEqual(held)
    expect([to.got.map(({ id }) => id), relay.health().state]).toEqual([['free'], 'running'])
    expect(lines).toEqual([
      expect.stringMatching(/cannot be opened and wait with those behind them/),
    ])
    await relay.drain()
    await relays.start({ bank: to.destination }, { seal: seals.rotated })
    await until(() => to.got.length === 3, { what: 'all messages', deadlineMs: 10_000 })
    expect(to.got.map(({ id }) => id)).toEqual(['free', 'first', 'behind'])
    const [, first] = to.got
    const contentType = 'application/vnd.order+json'
    expect(first).toMatchObject({ contentType, headers: { 'x-iban': SECRET }, source: 'billing' })
    expect(first && JSON.parse(text(first))).toEqual({ id: 'first', iban: SECRET })
    await until(async () => (await rows()).length === 0, { what: 'an empty outbox' })
  },
)

// Red when the time without a key counts as time in which its destination refused it: the first refusal after it is the end.
test('the time in which a message could not be opened does not count against it', async () => {
  await sent(seals.old, 'k', 'first')
  await relays.pool.query(
    "update onceward.outbox_messages set attempt = 1, failed_at = now() - interval '2 h'",
  )
  const limits = { baseMs: 10, maxMs: 20, giveUpAfterMs: 3_600_000 }
  const closed = await relays.start({ bank: recording().destination }, limits)
  await until(async () =>
    expect(await rows()).toMatchObject([{ error: expect.stringMatching(/can open it/) }]),
  )
  await closed.drain()
  let refusals = 0
  const to = recording(() => {
    refusals += 1
    return refusals === 1 ? { refused: 'not now' } : undefined
  })
  await relays.start({ bank: to.destination }, { ...limits, seal: seals.old })
  await until(() => to.got.length === 1, { what: 'the message', deadlineMs: 10_000 })
  expect(refusals).toBe(2)
})

test('what is sent with seal shows nothing of payload and headers', async () => {
  await sent(seals.old, 'k', 'first')
  const { rows: found } = await relays.pool.query(
    "select encode(payload, 'escape') || encode(envelope, 'escape') as shown from onceward.outbox_messages",
  )
  expect(found[0].shown).toMatch(/^.*sealed:\{"source":"billing"/s)
  expect(found[0].shown).not.toContain(SECRET)
})

test('a `seal` without its two functions is refused', async () => {
  const { destination } = recording()
  const wrong = relays.start({ bank: destination }, { seal: {} as never })
  await expect(wrong).rejects.toThrow(/Expected `seal` of startRelay to be `\{ seal, open \}`/)
})
