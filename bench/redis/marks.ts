import { randomUUID } from 'node:crypto'
import type { Claim, EventId, Fingerprint, LeaseSession, OwnerToken } from '@onceward/core/ports'
import type { Redis } from 'ioredis'
import { alternate, type Contestant, inLanes } from '../runner/rounds.ts'
import { type Cache, openCache, openLeases } from './testbed.ts'

const BATCH = 100
/** Concurrent batches. */
const LANES = 4
/** The default window. A mark is put only where it ends before the window does. */
const WINDOW_MS = 15 * 24 * 3_600_000
/** Longer than a round on the slowest machine, because no key may expire before its second use. */
const LEASE_MS = 3_600_000
/** The numbers of marks at which their memory is measured. */
const WEIGHED = [1_000_000, 5_000_000]

/**
 * Claim and completion of an event, and its duplicates, each beside the least work that Redis can do for it. `bare` is
 * another Redis, because the million keys of this contestant would slow down the first one.
 */
export async function bareContestants(own: Cache, bare: Cache): Promise<readonly Contestant[]> {
  const session = await openLeases(own.client)
  const { client } = bare
  return [
    {
      name: 'claim-complete',
      prepare: async (events) => {
        const batches = [...batchesOf(events)]
        return () => inLanes(batches, LANES, (batch) => finish(session, batch))
      },
    },
    {
      name: 'set-nx-twice',
      prepare: async (events) => {
        const batches = [...batchesOf(events)]
        return () =>
          inLanes(batches, LANES, async (batch) => {
            await setNx(client, batch, { suffix: 'claimed', answer: 'OK' })
            await setNx(client, batch, { suffix: 'done', answer: 'OK' })
          })
      },
    },
    {
      name: 'claim-duplicates',
      factor: 2,
      prepare: async (events) => {
        const batches = [...batchesOf(events)]
        await inLanes(batches, LANES, (batch) => finish(session, batch))
        return () =>
          inLanes(batches, LANES, async (batch) => {
            const answers = await session.claim(batch)
            demand(answers.every(({ kind }) => kind === 'duplicate'))
          })
      },
    },
    {
      name: 'set-nx-duplicates',
      factor: 2,
      prepare: async (events) => {
        const batches = [...batchesOf(events)]
        const claimed = { suffix: 'claimed', answer: 'OK' } as const
        await inLanes(batches, LANES, (batch) => setNx(client, batch, claimed))
        return () =>
          inLanes(batches, LANES, (batch) => setNx(client, batch, { ...claimed, answer: null }))
      },
    },
  ]
}

/** The memory of many done marks, and whether the last million is as fast as the first. */
export interface MarkFigures {
  readonly bytes: Readonly<Record<string, number>>
  readonly rates: ReadonlyMap<string, readonly number[]>
}

/**
 * Fills one Redis up to its last tenth. Then that tenth and the first one of an empty Redis take turns, so that a
 * machine that gets slower affects both.
 */
export async function growMarks(keys: number, rounds: number): Promise<MarkFigures> {
  await using full = await openCache()
  await using empty = await openCache()
  const [many, few] = [await openLeases(full.client), await openLeases(empty.client)]
  const bytes: Record<string, number> = {}
  const before = await full.usedBytes()
  // Half of the last tenth is marked behind commits, and half is claimed first.
  const events = Math.floor(keys / 20 / (rounds + 1) / BATCH) * BATCH
  const toFill = keys - 2 * events * (rounds + 1)
  const weighed = WEIGHED.filter((at) => at <= toFill)
  let filled = 0
  for (const at of weighed.length > 0 ? weighed : [toFill]) {
    await inLanes(batchesOf(at - filled), LANES, (batch) => remember(many, batch))
    filled = at
    bytes[`bytes per mark of ${filled}`] = ((await full.usedBytes()) - before) / filled
  }
  await inLanes(batchesOf(toFill - filled), LANES, (batch) => remember(many, batch))
  const filling = (name: string, session: LeaseSession, fill = remember): Contestant => ({
    name,
    prepare: async (count) => () =>
      inLanes(batchesOf(count), LANES, (batch) => fill(session, batch)),
  })
  const contestants = [
    filling('first-tenth', few),
    filling('last-tenth', many),
    filling('first-tenth-always', few, finish),
    filling('last-tenth-always', many, finish),
  ]
  return { bytes, rates: await alternate(contestants, { rounds, events }) }
}

function* batchesOf(events: number): Generator<readonly Claim[]> {
  for (let made = 0; made < events; made += BATCH) yield Array.from({ length: BATCH }, newClaim)
}

function newClaim(): Claim {
  const id = randomUUID() as EventId
  const ownerToken = randomUUID() as OwnerToken
  return { id, ownerToken, fingerprint: 0x1234_5601n as Fingerprint, leaseMs: LEASE_MS }
}

async function finish(session: LeaseSession, batch: readonly Claim[]): Promise<void> {
  const claimed = await session.claim(batch)
  demand(claimed.every(({ kind }) => kind === 'acquired'))
  const completed = await session.complete(batch, WINDOW_MS)
  demand(completed.every((answer) => answer === 'held'))
}

/** What a new event costs beside an inbox: its mark, behind its commit. */
async function remember(session: LeaseSession, batch: readonly Claim[]): Promise<void> {
  const write = session.marks?.()
  if (write === undefined) throw new Error('Redis was asked before it was ready')
  await write(batch, WINDOW_MS)
}

async function setNx(
  client: Redis,
  batch: readonly Claim[],
  { suffix, answer }: { readonly suffix: string; readonly answer: 'OK' | null },
): Promise<void> {
  const pipeline = client.pipeline()
  for (const { id, ownerToken, leaseMs } of batch) {
    pipeline.set(`o:${id}:${suffix}`, ownerToken, 'PX', leaseMs, 'NX')
  }
  const answers = await pipeline.exec()
  demand(answers?.every(([error, value]) => error === null && value === answer) === true)
}

function demand(isSo: boolean): void {
  if (!isSo) throw new Error('Redis answered something else than what is measured')
}
