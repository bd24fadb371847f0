import type { Settlement } from '@onceward/core'
import { handMadeGuard } from '@onceward/testing/adapter'
import { expect, test } from 'vitest'
import { message } from './fixtures/fetch.ts'
import { resolveSettings } from './options.ts'
import { createSettleContext, type SettleContext, settle } from './settle.ts'

const record = { topic: 'orders', partition: 0, message: message(41, 'a') }

function setUp(place: 'publish' | 'record' = 'record') {
  const made = handMadeGuard()
  const published: unknown[] = []
  const publish = async (letter: unknown): Promise<void> => void published.push(letter)
  const context: SettleContext = {
    ...createSettleContext(made.port, resolveSettings({}, made.port.settings)),
    place: place === 'record' ? { kind: 'record' } : { kind: 'publish', publish },
  }
  return { ...made, published, context }
}

const until = (ms: number) => (1_000_000 + ms) as Extract<Settlement, { kind: 'defer' }>['until']

test.each<[Settlement, unknown]>([
  [{ kind: 'ack', by: 'processed' }, { kind: 'settled' }],
  [{ kind: 'ack', by: 'duplicate' }, { kind: 'settled' }],
  [
    { kind: 'defer', reason: 'failed', until: until(500) },
    { kind: 'later', waitMs: 500 },
  ],
  [
    { kind: 'defer', reason: 'in-progress', until: until(-5) },
    { kind: 'later', waitMs: 0 },
  ],
  [{ kind: 'defer', reason: 'store-down', until: until(9_000) }, { kind: 'store-down' }],
  [{ kind: 'dead-letter', reason: 'fatal' }, { kind: 'settled' }],
  [{ kind: 'abandon', reason: 'closing' }, { kind: 'left' }],
  [
    { kind: 'abandon', reason: 'lease-lost' },
    { kind: 'later', waitMs: 1_500 },
  ],
  [
    { kind: 'abandon', reason: 'deadline' },
    { kind: 'later', waitMs: 1_500 },
  ],
  [
    { kind: 'abandon', reason: 'commit-unknown' },
    { kind: 'later', waitMs: 1_500 },
  ],
])('the settlement %o gives %o', async (settlement, fate) => {
  expect(await settle(setUp().context, record, settlement)).toEqual(fate)
})

const dead: Settlement = { kind: 'dead-letter', reason: 'fatal' }

test('a dead letter is published before its offset may pass', async () => {
  const kit = setUp('publish')
  expect(await settle(kit.context, record, dead)).toEqual({ kind: 'settled' })
  expect(kit.published).toHaveLength(1)
  kit.state.publish = 'already'
  expect(await settle(kit.context, record, dead)).toEqual({ kind: 'settled' })
  expect(kit.published).toHaveLength(1)
})

test('a message whose dead letter cannot be published now comes back', async () => {
  const kit = setUp('publish')
  const later = { kind: 'later', waitMs: 3_000 }
  const settling = (publishDeadLetter: SettleContext['port']['publishDeadLetter']) =>
    settle({ ...kit.context, port: { publishDeadLetter } }, record, dead)
  // Without an error another process is publishing it right now.
  expect(await settling(async () => ({ kind: 'retry', cause: 'publishing-elsewhere' }))).toEqual(
    later,
  )
  expect(kit.logged).toEqual([])
  const error = new Error('no leader')
  expect(
    await settling(async () => ({ kind: 'retry', cause: 'dead-letter-place-down', error })),
  ).toEqual(later)
  expect(await settling(() => Promise.reject(error))).toEqual(later)
  const fields = { topic: 'orders', partition: 0, offset: '41', reason: 'Error: no leader' }
  expect(kit.logged).toMatchObject([
    { level: 'error', fields },
    { level: 'error', fields },
  ])
})
