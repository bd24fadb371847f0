import { handMadeGuard } from '@onceward/testing/adapter'
import { describe, expect, test } from 'vitest'
import { resolveConsumerSettings } from '../../options.ts'
import type { Fetched, PulledEvents } from '../port.ts'
import { ConfluentConsumer } from './consumer.ts'
import type { Callback, RdConfig, RdMessage, RdPartition } from './rdkafka.ts'

const [ASSIGN, REVOKE] = [-175, -174]
const partition = (number: number): RdPartition => ({ topic: 'orders', partition: number })
const record = (number: number, offset: number): RdMessage => ({
  ...{ ...partition(number), offset, timestamp: 1, key: null, value: Buffer.from('{}'), size: 2 },
})
const position = (number: number, offset: number) => ({
  ...{ topic: 'orders', partition: number, offset: BigInt(offset) },
})
const turns = (): Promise<void> => new Promise((resolve) => setImmediate(resolve))

/** The test plays librdkafka. */
async function connected(
  given: Partial<PulledEvents> = {},
  own: Readonly<Record<string, unknown>> = {},
) {
  const { clock, port } = handMadeGuard()
  const calls: string[] = []
  const commits: (readonly RdPartition[])[] = []
  const pauses: string[] = []
  const consuming: Callback<readonly RdMessage[]>[] = []
  const state = { isLost: false, isConnected: true, refusal: null as object | null }
  let config: RdConfig = {}
  const note = (name: string, parts: readonly RdPartition[] = []): void => {
    const shown = parts.map((each) => `${each.partition}@${each.offset ?? ''}`)
    calls.push([name, ...shown].join(' '))
  }
  class KafkaConsumer {
    constructor(made: RdConfig) {
      config = made
    }
    on = () => undefined
    connect = (_: unknown, done: Callback) => done(null)
    disconnect = (done: Callback) => {
      note('disconnect')
      done(null)
    }
    isConnected = () => state.isConnected
    subscribe = () => note('subscribe')
    committed = (
      parts: readonly RdPartition[],
      _: number,
      done: Callback<readonly RdPartition[]>,
    ) => done(null, parts)
    incrementalAssign = (parts: readonly RdPartition[]) => note('assign', parts)
    incrementalUnassign = (parts: readonly RdPartition[]) => note('unassign', parts)
    unassign = () => note('unassign all')
    assignmentLost = () => state.isLost
    rebalanceProtocol = () => 'COOPERATIVE'
    setDefaultConsumeTimeout = () => undefined
    setDefaultIsTimeoutOnlyForFirstMessage = () => undefined
    consume = (_: number, done: Callback<readonly RdMessage[]>) => void consuming.push(done)
    pause = (parts: readonly RdPartition[]) => void pauses.push(`pause ${parts[0]?.partition}`)
    resume = (parts: readonly RdPartition[]) => void pauses.push(`resume ${parts[0]?.partition}`)
    commitCb = (parts: readonly RdPartition[], done: Callback) => {
      commits.push(parts)
      done(state.refusal)
    }
  }
  const events: PulledEvents = {
    onAssigned: async (parts) => consumer.seek(parts.map((each) => position(each.partition, 5))),
    onRevoked: async () => note('revoked'),
    onLost: () => note('lost'),
    onHeld: () => undefined,
    onAnswered: () => undefined,
    onEnded: (error) => note(`ended ${(error as { type: string }).type}`),
    ...given,
  }
  const settings = resolveConsumerSettings({ topics: ['orders'] }, port.settings)
  const rdkafka = { KafkaConsumer, AdminClient: { createFrom: () => ({}) } } as never
  const consumer = new ConfluentConsumer(
    { config: { 'bootstrap.servers': 'x', ...own }, rdkafka },
    { port, settings },
    events,
  )
  await consumer.connect()
  const tell = (name: string, ...args: readonly unknown[]): void =>
    (config[name] as (...all: readonly unknown[]) => void)(...args)
  const rebalance = async (code: number, ...numbers: readonly number[]): Promise<void> => {
    tell('rebalance_cb', { code }, numbers.map(partition))
    await turns()
  }
  /** Answers the fetch that is under way. */
  const give = async (...records: readonly RdMessage[]): Promise<void> => {
    await turns()
    consuming.shift()?.(null, records)
    await turns()
  }
  return { consumer, calls, clock, commits, consuming, pauses, state, tell, rebalance, give }
}

const offsets = (fetched: readonly Fetched[]): readonly string[] =>
  fetched.flatMap(({ records }) =>
    records.map((each) => `${each.partition}/${each.message.offset}`),
  )

describe('the consumer of confluent', () => {
  test('an assignment is answered with the offsets at which its partitions are read', async () => {
    const { calls, rebalance } = await connected()
    await rebalance(ASSIGN, 0, 1)
    expect(calls).toEqual(['assign 0@5 1@5'])
  })

  test.each([
    { protocol: 'consumer', told: ['came '] },
    // librdkafka tells of an assignment without partitions, and a join may wait for other members.
    { protocol: 'classic', told: [] },
  ])(
    '$protocol: a member that gets no partition has joined when its coordinator has answered',
    async (row) => {
      const told: string[] = []
      const came = async (parts: readonly RdPartition[]): Promise<void> =>
        void told.push(`came ${parts.map(({ partition }) => partition)}`)
      const { clock, consumer, rebalance } = await connected(
        { onAssigned: came },
        { 'group.protocol': row.protocol },
      )
      await consumer.subscribe(['orders'])
      const look = async (): Promise<void> => {
        await clock.advance(2_000)
        void consumer.fetch(10)
        await turns()
      }
      await look()
      await look()
      expect(told).toEqual(row.told)
      await rebalance(ASSIGN, 0)
      await look()
      expect(told).toEqual([...row.told, 'came 0'])
    },
  )

  // Red when the assignment is answered beside a fetch: records from before would count as those of the new owner.
  test('a partition that comes waits for the fetch that is under way, whose records are dropped', async () => {
    const { calls, consumer, give, rebalance } = await connected()
    const fetching = consumer.fetch(10)
    await turns()
    await rebalance(ASSIGN, 0)
    expect(calls).toEqual([])
    await give(record(0, 3))
    expect(calls).toEqual(['assign 0@5'])
    await give(record(0, 5))
    expect(offsets(await fetching)).toEqual(['0/5'])
  })

  test('partitions are given back after their records have ended', async () => {
    const ended = Promise.withResolvers<void>()
    const { calls, rebalance } = await connected({ onRevoked: () => ended.promise })
    await rebalance(ASSIGN, 0, 1)
    await rebalance(REVOKE, 0)
    expect(calls).toEqual(['assign 0@5 1@5'])
    ended.resolve()
    await turns()
    expect(calls.at(-1)).toBe('unassign 0@')
  })

  // Red without the answer: librdkafka waits for it, so the disconnect does not end, and the member keeps its partitions.
  test.each([
    { code: ASSIGN, before: [] },
    { code: REVOKE, before: ['assign 0@5'] },
  ])('a rebalance that is under way at the close is answered: $code', async ({ code, before }) => {
    const ended = Promise.withResolvers<void>()
    const isHeld = { onAssigned: () => ended.promise }
    const { calls, consumer, rebalance } = await connected(
      code === ASSIGN ? isHeld : { onRevoked: () => ended.promise },
    )
    if (code === REVOKE) await rebalance(ASSIGN, 0)
    await rebalance(code, 0)
    const closing = consumer.close()
    ended.resolve()
    await closing
    await turns()
    expect(calls).toEqual([...before, 'unassign all', 'disconnect'])
  })

  test('a commit counts when the broker has confirmed it', async () => {
    const { commits, consumer, rebalance, tell } = await connected()
    await rebalance(ASSIGN, 0)
    let isOver = false
    const committing = consumer.commit([position(0, 9)]).then(() => {
      isOver = true
    })
    await turns()
    expect(isOver).toBe(false)
    tell('offset_commit_cb', undefined, commits[0])
    await committing
    const refused = consumer.commit([position(0, 10)])
    tell(
      'offset_commit_cb',
      { code: 22, message: 'Broker: Specified group generation id' },
      commits[1],
    )
    await expect(refused).rejects.toMatchObject({ type: 'ILLEGAL_GENERATION' })
  })

  // librdkafka would send it in the name of the next generation, and the broker would take it.
  test('nothing is committed for partitions that are lost or gone', async () => {
    const { calls, commits, consumer, rebalance, state } = await connected()
    await rebalance(ASSIGN, 0, 1)
    state.isLost = true
    await rebalance(REVOKE, 0, 1)
    expect(calls.slice(1)).toEqual(['lost', 'unassign 0@ 1@'])
    await expect(consumer.commit([position(0, 9)])).rejects.toMatchObject({
      type: 'REBALANCE_IN_PROGRESS',
    })
    expect(commits).toEqual([])
  })

  // Red in the compatible client (its issue 517): they are skipped and committed.
  test('records that come after the pause of their partition are given when it is resumed', async () => {
    const { consumer, give, rebalance } = await connected()
    await rebalance(ASSIGN, 0, 1)
    const fetching = consumer.fetch(10)
    await turns()
    consumer.pause([partition(0)])
    await give(record(0, 5), record(1, 5))
    expect(offsets(await fetching)).toEqual(['1/5'])
    consumer.resume([partition(0)])
    expect(offsets(await consumer.fetch(10))).toEqual(['0/5'])
  })

  // Red when librdkafka pauses each partition at once: it fetches what it drops again, up to a second after the resume.
  test('librdkafka pauses a partition when a megabyte of it is kept, and goes on before all is given', async () => {
    const { consumer, give, pauses, rebalance } = await connected()
    await rebalance(ASSIGN, 0, 1)
    pauses.length = 0
    const large = (offset: number): RdMessage => ({ ...record(0, offset), size: 262_144 })
    const fetching = consumer.fetch(2)
    consumer.pause([partition(0)])
    await give(large(5), large(6))
    await give(large(7))
    expect(pauses).toEqual([])
    // As many as were asked for: an answer to a commit may be behind them.
    consumer.resume([])
    await give(large(8), large(9))
    await give(record(1, 5))
    expect(offsets(await fetching)).toEqual(['1/5'])
    expect(pauses).toEqual(['pause 0'])
    consumer.resume([partition(0)])
    expect(offsets(await consumer.fetch(2))).toEqual(['0/5', '0/6'])
    expect(pauses).toEqual(['pause 0'])
    expect(offsets(await consumer.fetch(2))).toEqual(['0/7', '0/8'])
    expect(pauses).toEqual(['pause 0', 'resume 0'])
    expect(offsets(await consumer.fetch(2))).toEqual(['0/9'])
  })

  test('an error that ends librdkafka ends the consumer; one of a topic passes', async () => {
    const { calls, consumer, consuming } = await connected()
    const fail = async (code: number): Promise<void> => {
      const fetching = consumer.fetch(10).catch(() => undefined)
      await turns()
      consuming.shift()?.({ code, message: 'failed' }, [])
      await turns()
      consumer.resume([])
      await turns()
      consuming.shift()?.(null, [])
      await fetching
    }
    await fail(3)
    expect(calls).toEqual([])
    await fail(-150)
    expect(calls).toEqual([expect.stringMatching(/^ended/)])
    await expect(consumer.fetch(10)).rejects.toThrow()
  })

  // Red when what ends a member depends on what it hears first: one was retried, the other ended for good.
  test.each([
    ['classic', 'FENCED_INSTANCE_ID'],
    ['consumer', 'UNRELEASED_INSTANCE_ID'],
  ])('a static id of two members ends one of them by one error: %s', async (protocol, type) => {
    const own = { 'group.instance.id': 'one', 'group.protocol': protocol }
    const fetched = await connected({}, own)
    const fetching = fetched.consumer.fetch(10).catch((error: unknown) => error)
    await turns()
    fetched.consuming.shift()?.({ code: -150, message: 'Local: Fatal error' }, [])
    fetched.consumer.resume([])
    await turns()
    expect(fetched.calls).toEqual([`ended ${type}`])
    await expect(fetched.consumer.fetch(10)).rejects.toThrow('the same `group.instance.id` (one)')
    fetched.consuming.shift()?.(null, [])
    await fetching

    const committing = await connected({}, own)
    await committing.rebalance(ASSIGN, 0)
    committing.state.refusal = { code: 82, message: 'fenced' }
    const refused = committing.consumer.commit([position(0, 6)])
    await expect(refused).rejects.toMatchObject({ type: 'REBALANCE_IN_PROGRESS' })
    expect(committing.calls.at(-1)).toBe(`ended ${type}`)
  })

  // Red when the disconnect is called at once: librdkafka is freed under the call, and the process crashes.
  test('it disconnects when no call is under way, and answers what is revoked then', async () => {
    const { calls, consumer, give, rebalance } = await connected()
    const fetching = consumer.fetch(10)
    await turns()
    const closing = consumer.close()
    await turns()
    expect(calls).toEqual([])
    await rebalance(REVOKE, 0)
    expect(calls).toEqual(['unassign all'])
    await give()
    await closing
    expect(calls.at(-1)).toBe('disconnect')
    expect(await fetching).toEqual([])
  })
})
