import { ConfigurationError } from '@onceward/core'
import { handMadeGuard } from '@onceward/testing/adapter'
import { expect, test } from 'vitest'
import type { ConsumerFacts, StreamFacts } from './client.ts'
import { examine, matches, termsOf } from './doctor.ts'
import { JetStreamError } from './errors.ts'
import { handMadeApi } from './fixtures/hand-made-api.ts'
import { resolveSettings } from './options.ts'

type Config<Facts extends { config: unknown }> = Partial<Facts['config']>

function examining(
  stream: Config<StreamFacts> = {},
  consumer: Config<ConsumerFacts> = {},
  deadLetter?: { readonly subject: string },
) {
  const { port, logged } = handMadeGuard()
  const made = handMadeApi()
  const { state } = made
  state.stream = { ...state.stream, config: { ...state.stream.config, ...stream } }
  state.consumer = { config: { ...state.consumer.config, ...consumer } }
  const settings = resolveSettings(
    { stream: 'ORDERS', consumer: 'billing', deadLetter },
    port.settings,
  )
  const { logger } = port
  const run = (hadConsumer = false) =>
    examine({ api: made.api, settings, guard: port.settings, logger, hadConsumer })
  return { ...made, run, logged, warnings: () => logged.map(({ fields }) => fields['finding']) }
}

test('settings as the page says cause no warning', async () => {
  const { run, logged } = examining()
  expect(await run()).toMatchObject({ ackWaitMs: 33_000, incarnation: '2026-01-01T00:00:00Z' })
  expect(logged).toEqual([])
})

test.each<[Config<StreamFacts>, Config<ConsumerFacts>, RegExp]>([
  [{ max_age: 0 }, {}, /without a limit of time.*Set max_age/],
  [{ max_bytes: 5, discard: 'old' }, {}, /discard old.*Set discard new/],
  [{ storage: 'memory' }, {}, /Set storage file/],
  [{ num_replicas: 1 }, {}, /`sync_interval` of the server is over.*num_replicas 3/],
  [{ persist_mode: 'async' }, {}, /persist_mode async/],
  [{}, { ack_wait: 5e9 }, /5000 ms.*lease of 30000 ms.*Set 33s/],
  [{}, { backoff: [1e9, 60e9] }, /1000 ms \(ack_wait, or a wait of backoff\)/],
  [{}, { max_deliver: 8 }, /8 times \(max_deliver\), which waits.*Set max_deliver -1/],
  [{}, { max_ack_pending: 1 }, /max_ack_pending\), fewer than the 2/],
  [{}, { inactive_threshold: 5e9 }, /5000 ms \(inactive_threshold\)/],
  [{}, { mem_storage: true }, /mem_storage/],
])('%o and %o cause a warning', async (stream, consumer, text) => {
  const { run, warnings } = examining(stream, consumer)
  await run()
  expect(warnings()).toEqual([expect.stringMatching(text)])
})

test.each<[Config<StreamFacts>, Config<ConsumerFacts>, RegExp]>([
  [{ max_age: 40 * 86_400e9 }, {}, /longer than the guard's `dedupWindowMs`/],
  [{}, { deliver_subject: 'push' }, /push consumer/],
  [{}, { ack_policy: 'none' }, /ack policy none.*ordered consumer/],
  [{}, { ack_policy: 'all' }, /ack policy all: an ack would settle the messages before it/],
  [{}, { headers_only: true }, /no bodies/],
  [{}, { priority_groups: ['a'] }, /priority_groups/],
  [{}, { ack_wait: 5e8 }, /500 ms.*too short to renew/],
  [{}, { max_deliver: 4 }, /4 times \(max_deliver\), fewer than the guard's 5 attempts/],
])('%o and %o are refused', async (stream, consumer, text) => {
  const refusal = examining(stream, consumer).run()
  await expect(refusal).rejects.toThrow(ConfigurationError)
  await expect(refusal).rejects.toThrow(text)
})

test.each([
  [undefined, /No stream takes the subject of `deadLetter`, orders.dead/],
  ['ORDERS', /would come back again and again/],
])('dead letters to the stream %s are refused', async (taker, text) => {
  const { run, state } = examining({}, {}, { subject: 'orders.dead' })
  state.streamOf = taker
  await expect(run()).rejects.toThrow(text)
})

test('dead letters may be in the stream itself, if its consumer does not receive them', async () => {
  const filter = { filter_subjects: ['orders.*.placed'] }
  const { run, state } = examining({}, filter, { subject: 'orders.dead' })
  state.streamOf = 'ORDERS'
  await run()
})

test('a look that follows an outage warns of nothing again, and still refuses', async () => {
  const { run, logged, state } = examining({ num_replicas: 1 })
  await run(true)
  expect(logged).toEqual([])
  state.consumer = { config: { ack_policy: 'none' } }
  await expect(run(true)).rejects.toThrow('ack policy none')
})

test('a consumer that is gone later is an outage, and one that may not be looked at is taken as by default', async () => {
  const kit = examining()
  const failing = (error: Error) =>
    Object.assign(kit.api, { consumer: () => Promise.reject(error) })
  failing(new JetStreamError('consumer not found', 10014))
  await expect(kit.run(true)).rejects.toThrow(JetStreamError)
  await expect(kit.run()).rejects.toThrow(ConfigurationError)
  failing(Object.assign(new Error('denied'), { name: 'PermissionViolationError' }))
  expect(await kit.run()).toMatchObject({ ackWaitMs: 30_000 })
  expect(kit.logged).toMatchObject([{ fields: { fix: expect.stringContaining('CONSUMER.INFO') } }])
})

test('the bounds of requests are those of the consumer', () => {
  const { state } = handMadeApi()
  const consumer = { config: { ack_policy: 'explicit', max_batch: 5, max_expires: 2e8 } }
  expect(termsOf({ stream: state.stream, consumer })).toMatchObject({
    ...{ ackWaitMs: 30_000, mostBatch: 5, mostExpiresMs: 200 },
  })
})

test.each([
  ['a.b', 'a.b', true],
  ['a.*', 'a.b', true],
  ['a.>', 'a.b.c', true],
  ['>', 'a', true],
  ['a.>', 'a', false],
  ['a.*', 'a.b.c', false],
  ['a.b', 'a.c', false],
])('the filter %s takes %s: %s', (filter, subject, isTaken) => {
  expect(matches(filter, subject)).toBe(isTaken)
})
