import type { Settlement } from '@onceward/core'
import { randomOf } from '@onceward/testing/adapter'
import type { EachBatchPayload } from 'kafkajs'
import { expect, test } from 'vitest'
import { ack } from './fixtures/ack.ts'
import { message, protocolError } from './fixtures/fetch.ts'
import { setUp } from './fixtures/member.ts'

const PARTITIONS = [0, 1, 2]
const RECORDS = 40
const STEPS = 150

/** As much of kafkajs as a member of a group sees, and faults at random. */
class Kafkajs {
  readonly committed: number[] = PARTITIONS.map(() => 0)
  readonly #positions: number[] = PARTITIONS.map(() => 0)
  readonly #kit: ReturnType<typeof setUp>
  readonly #random: () => number
  readonly #done: readonly Set<number>[]
  readonly #paused = new Set<number>()
  /** How many of the pauses, resumes and seeks were carried out. */
  #carriedOut = 0
  #owned: readonly number[] = []
  #generation = 0
  #open = 0
  /** The number of the consumer. */
  #life = 0
  isRebalancing = false
  fault: 'none' | 'network' | 'silence' = 'none'

  constructor(kit: ReturnType<typeof setUp>, random: () => number, done: readonly Set<number>[]) {
    this.#kit = kit
    this.#random = random
    this.#done = done
  }

  /** A new consumer, whose member id and positions are new. */
  start(): void {
    if (this.#life > 0) this.#kit.emit('CRASH', { error: new Error('gone'), restart: true })
    this.#life += 1
    this.#carriedOut = this.#kit.told.length
    this.#paused.clear()
    this.#open = 0
    this.fault = 'none'
    this.join(true, PARTITIONS)
  }

  #carryOut(): void {
    for (const told of this.#kit.told.slice(this.#carriedOut)) {
      const [verb, partition, offset] = told.split(' ')
      if (verb === 'pause') this.#paused.add(Number(partition))
      if (verb === 'resume') this.#paused.delete(Number(partition))
      if (verb === 'seek') this.#positions[Number(partition)] = Number(offset)
    }
    this.#carriedOut = this.#kit.told.length
  }

  join(isNew: boolean, owned: readonly number[]): void {
    if (isNew) this.#generation += 1
    this.isRebalancing = false
    for (const partition of owned) {
      this.#positions[partition] = this.committed[partition] ?? 0
    }
    this.#owned = owned
    this.#kit.join(owned, `m-${this.#generation}`)
  }

  /** Fetches what follows the position of each partition, once all callbacks of the last fetch have returned. */
  fetch(): void {
    if (this.#open > 0 || this.fault !== 'none') return
    if (this.isRebalancing) {
      this.join(this.#random() < 0.5, this.#part())
      return
    }
    this.#carryOut()
    this.#kit.emit('FETCH')
    this.#kit.emit('HEARTBEAT', { groupGenerationId: 1 })
    for (const partition of this.#owned) {
      const from = this.#positions[partition] ?? 0
      if (this.#paused.has(partition) || from >= RECORDS) continue
      const count = Math.min(RECORDS - from, 1 + Math.floor(this.#random() * 6))
      void this.#call(partition, from, count)
    }
  }

  async #call(partition: number, from: number, count: number): Promise<void> {
    const [life, generation] = [this.#life, this.#generation]
    this.#positions[partition] = from + count
    this.#open += 1
    try {
      await this.#kit.wrapped.eachBatch?.(this.#payload(partition, from, count))
    } catch (error) {
      expect(error).toMatchObject({ type: expect.stringMatching(/REBALANCE|GENERATION/) })
      if (life === this.#life) this.join(false, this.#part())
    }
    if (life === this.#life && generation <= this.#generation) this.#open -= 1
  }

  #payload(partition: number, from: number, count: number): EachBatchPayload {
    const life = this.#life
    const messages = Array.from({ length: count }, (_, n) =>
      message(from + n, `k-${partition}-${(from + n) % 3}`),
    )
    const asked = async (): Promise<void> => {
      if (this.fault === 'silence' || life !== this.#life) {
        return new Promise<void>(() => undefined)
      }
      if (this.fault === 'network') throw new Error('connect ECONNREFUSED')
      if (this.isRebalancing) throw protocolError('REBALANCE_IN_PROGRESS')
    }
    const payload: object = {
      batch: {
        ...{ topic: 'orders', partition, messages, fetchedOffset: String(from) },
        lastOffset: () => String(from + count - 1),
      },
      resolveOffset: (offset: string) => {
        if (life === this.#life) this.#positions[partition] = Number(offset) + 1
      },
      heartbeat: asked,
      commitOffsetsIfNecessary: async ({ topics }: { topics: readonly Committed[] }) => {
        await asked()
        for (const { partitions } of topics) {
          for (const { partition: of, offset } of partitions) this.#commit(of, Number(offset))
        }
      },
      isRunning: () => true,
      isStale: () => false,
    }
    return payload as EachBatchPayload
  }

  #commit(partition: number, offset: number): void {
    for (let below = 0; below < offset; below += 1) {
      if (!this.#done[partition]?.has(below)) {
        throw new Error(`${partition}/${offset} was committed, but ${below} is not done`)
      }
    }
    this.committed[partition] = offset
  }

  #part(): readonly number[] {
    return PARTITIONS.filter(() => this.#random() < 0.8)
  }
}

interface Committed {
  readonly partitions: readonly { readonly partition: number; readonly offset: string }[]
}

async function runSchedule(seed: number): Promise<readonly number[]> {
  const random = randomOf(seed)
  const kit = setUp({ concurrency: 1 + Math.floor(random() * 4) })
  const done = PARTITIONS.map(() => new Set<number>())
  const kafkajs = new Kafkajs(kit, random, done)
  const settled = new Set<object>()
  const settle = (pick: (settlement: number) => Settlement): void => {
    const waiting = kit.handed.filter((each) => !settled.has(each))
    const one = waiting[Math.floor(random() * waiting.length)]
    if (one === undefined) return
    settled.add(one)
    const settlement = pick(random())
    const [partition, offset] = String(one.delivery.source.position).split('/').map(Number)
    if (settlement.kind === 'ack') done[partition ?? 0]?.add(offset ?? 0)
    one.settle(settlement)
  }
  const later = (): Settlement => ({
    ...{ kind: 'defer', reason: 'failed', until: (kit.clock.nowMs + random() * 3_000) as never },
  })
  kafkajs.start()
  for (let step = 0; step < STEPS; step += 1) {
    kafkajs.fetch()
    await kit.clock.advance(random() < 0.1 ? 3_000 : random() * 300)
    for (let n = random() * 4; n > 0; n -= 1) {
      settle((draw) => (draw < 0.75 ? ack : draw < 0.95 ? later() : LOST))
    }
    const draw = random()
    if (draw < 0.04) {
      kafkajs.isRebalancing = true
      kit.emit('REBALANCING')
    } else if (draw < 0.13 && draw >= 0.1) kafkajs.start()
    // A connection that is silent once stays so: its requests are never answered.
    else if (draw < 0.1 && kafkajs.fault !== 'silence')
      kafkajs.fault = FAULTS[Math.floor(random() * 4)] ?? 'none'
  }
  // All faults are over. A connection that was silent is one of a consumer that is replaced.
  if (kafkajs.fault === 'silence') kafkajs.start()
  kafkajs.fault = 'none'
  kafkajs.fetch()
  await kit.clock.advance(1_000)
  kafkajs.join(false, PARTITIONS)
  for (let round = 0; round < 400; round += 1) {
    kafkajs.fetch()
    settle(() => ack)
    await kit.clock.advance(100)
    if (kafkajs.committed.every((offset) => offset === RECORDS)) break
  }
  return kafkajs.committed
}

const FAULTS = ['none', 'none', 'network', 'silence'] as const
const LOST: Settlement = { kind: 'abandon', reason: 'lease-lost' }

// Red when a partition stays paused, or is never committed, after rebalances, crashes and requests without an answer.
test.each(Array.from({ length: Number(process.env['SEEDS'] ?? 20) }, (_, n) => n + 1))(
  'after faults at random every partition is read and committed to its end, and never past a record that is not done: %i',
  async (seed) => {
    expect(await runSchedule(seed)).toEqual(PARTITIONS.map(() => RECORDS))
  },
)
