import type { Settlement } from '@onceward/core'
import { describe, expect, test } from 'vitest'
import { fetchOf, protocolError } from './fixtures/fetch.ts'
import { records } from './fixtures/member.ts'
import { setUp, type Wrapping } from './fixtures/wrapping.ts'

// Red with the defaults of kafkajs: it commits what it has fetched, and records in hand are lost in a crash.
test('kafkajs commits nothing by itself', () => {
  const { consumption, ...config } = setUp().wrapped
  expect(config).toEqual({
    ...{ autoCommit: false, eachBatchAutoResolve: false, partitionsConsumedConcurrently: 32 },
    eachBatch: expect.any(Function),
  })
  expect(consumption.health().state).toBe('recovering')
})

/** As kafkajs tells of an error that ends a consumer. It restarts some of them. */
function crash({ emit }: Wrapping, error: Error, restart: boolean): void {
  emit('STOP')
  emit('DISCONNECT')
  emit('CRASH', { error, restart })
}

const inAMinute = ({ clock }: Wrapping): Settlement => ({
  ...{ kind: 'defer', reason: 'failed', until: (clock.nowMs + 60_000) as never },
})

describe('a consumer that kafkajs ends', () => {
  test('is given the reason in health, and whether it comes back', () => {
    const kit = setUp()
    kit.join()
    crash(kit, new Error('gone'), true)
    expect(kit.consumption.health()).toMatchObject({ state: 'recovering', reason: 'Error: gone' })
    crash(kit, new Error('for good'), false)
    const reason = expect.stringMatching(/^Error: for good; .*create a new one/)
    expect(kit.consumption.health()).toMatchObject({ state: 'stopped', reason })
  })

  // Red when they stay: they would be settled for a member that is no more, beside the run of the next one.
  test('loses its records in hand, and gets them again', async () => {
    const kit = setUp()
    kit.join()
    void kit.call(fetchOf(records('a', 'b')))
    await kit.clock.advance(0)
    for (const offset of [40, 41]) {
      kit.settle(offset, inAMinute(kit))
      await kit.clock.advance(300)
    }
    expect(kit.consumption.health().inFlight).toBe(2)
    crash(kit, protocolError('REQUEST_TIMED_OUT'), true)
    expect(kit.consumption.health().inFlight).toBe(0)
    kit.join()
    void kit.call(fetchOf(records('a', 'b')))
    await kit.clock.advance(0)
    expect(kit.consumption.health().inFlight).toBe(2)
  })

  test('leaves no timer and no publisher behind', async () => {
    const kit = setUp()
    kit.join()
    const fetch = fetchOf(records('a'))
    void kit.call(fetch)
    await kit.clock.advance(0)
    kit.settle(40, inAMinute(kit))
    await kit.clock.advance(1_000)
    expect(kit.publishers.size).toBe(1)
    fetch.broker.isRunning = false
    kit.emit('STOP')
    await kit.clock.advance(1_000)
    expect([kit.publishers.size, kit.clock.timers]).toEqual([0, 0])
  })

  // Red when nothing says so: `consumer.run` has ended, and its user sees only that kafkajs knows no codec.
  test('because it cannot decompress a record says what to install', () => {
    const kit = setUp()
    kit.join()
    crash(kit, new Error('connect ECONNREFUSED'), false)
    expect(kit.logged).toEqual([])
    const cause = new Error('crash', { cause: new Error('LZ4 compression not implemented') })
    crash(kit, cause, false)
    const message = expect.stringMatching(/^A record cannot be read: .*kafkajs-lz4/)
    expect(kit.logged).toMatchObject([
      {
        ...{ level: 'error', text: expect.stringContaining('cannot decompress a record') },
        fields: { err: { code: 'ONCEWARD_CONFIGURATION', message, cause } },
      },
    ])
    expect(kit.consumption.health().reason).toContain('kafkajs-lz4')
  })
})

// Red when only a rebalance that kafkajs noticed counts: if the answer to its last join was lost, it goes on in the new
// generation with the partitions of the old one.
test('heartbeats of another generation than that of the join are no sign of life', async () => {
  const kit = setUp()
  const beat = async (groupGenerationId: number, times: number): Promise<void> => {
    for (let time = 0; time < times; time += 1) {
      await kit.clock.advance(1_000)
      kit.emit('HEARTBEAT', { groupGenerationId })
    }
  }
  kit.join()
  await beat(1, 200)
  expect(kit.consumption.health().state).toBe('running')
  await beat(2, 91)
  const reason = expect.stringMatching(/A heartbeat of its group got no answer/)
  expect(kit.consumption.health()).toMatchObject({ state: 'recovering', reason })
  kit.join()
  await beat(2, 200)
  expect(kit.consumption.health().state).toBe('running')
})

describe('an offset that was committed', () => {
  const errorsOf = ({ logged }: Wrapping) => logged.filter(({ level }) => level === 'error')
  const committed = ({ emit }: Wrapping, partition: string, offset: string): void =>
    emit('COMMIT_OFFSETS', { topics: [{ topic: 'orders', partitions: [{ partition, offset }] }] })

  test('in another partition tells nothing of the records in hand', async () => {
    const kit = setUp()
    kit.join()
    void kit.call(fetchOf(records('a', 'b')))
    await kit.clock.advance(0)
    committed(kit, '1', '42')
    expect(errorsOf(kit)).toEqual([])
    committed(kit, '0', '42')
    expect(errorsOf(kit)).toHaveLength(1)
  })

  // kafkajs tells of the commit before onceward has its answer.
  test('behind the last record in hand is that of onceward if all of them are settled', async () => {
    const kit = setUp()
    kit.join()
    const fetch = fetchOf(records('a'))
    fetch.payload.commitOffsetsIfNecessary = async () => {
      committed(kit, '0', '41')
      fetch.payload.resolveOffset('41')
    }
    void kit.call(fetch)
    await kit.clock.advance(0)
    kit.settle(40)
    await kit.clock.advance(1_000)
    expect(fetch.calls.at(-1)).toBe('resolve 41')
    expect([errorsOf(kit), kit.consumption.health()]).toMatchObject([[], { settleFailures: 0 }])
  })
})
