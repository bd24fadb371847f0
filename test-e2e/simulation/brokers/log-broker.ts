import type { Life } from '../world/process.ts'
import type { BrokerClock, Message, Received, SimulatedBroker } from './broker.ts'

/** Every delivery is suspect so long after an assignment, ms. */
const SUSPECT_MS = 5_000

interface Partition {
  readonly messages: Message[]
  owner: Life | undefined
  /** One more with each assignment; what an earlier owner sends is refused. */
  assignment: number
  assignedAtMs: number
  committed: number
  position: number
  pausedUntilMs: number
  settled: Set<number>
  /** Handed over and not settled: one call of the guard at a time per partition. */
  outstanding: Set<number>
}

interface Place {
  readonly partition: Partition
  readonly offset: number
  readonly assignment: number
}

/** Kafka: partitions read in order by one process each, and an offset that says how far. */
export function createLog(messages: readonly Message[], clock: BrokerClock): SimulatedBroker {
  const partitions = toPartitions(messages)
  const places = new Map<number, Place>()
  let members: Life[] = []
  let lastReceipt = 0

  const assign = (partition: Partition, owner: Life | undefined): void => {
    partition.owner = owner
    partition.assignment += 1
    partition.assignedAtMs = clock.nowMs()
    partition.position = partition.committed
    partition.pausedUntilMs = 0
    partition.settled = new Set()
    partition.outstanding = new Set()
  }
  const readable = (life: Life): readonly Partition[] =>
    partitions.filter((partition) => {
      const { outstanding, owner, position, pausedUntilMs } = partition
      return (
        owner === life &&
        outstanding.size === 0 &&
        position < partition.messages.length &&
        pausedUntilMs <= clock.nowMs()
      )
    })
  const placeOf = (receipt: number): Place | undefined => {
    const place = places.get(receipt)
    return place?.assignment === place?.partition.assignment ? place : undefined
  }
  const read = (partition: Partition): Received | undefined => {
    const message = partition.messages[partition.position]
    if (message === undefined) return undefined
    lastReceipt += 1
    const { assignment, position: offset } = partition
    places.set(lastReceipt, { partition, offset, assignment })
    partition.position += 1
    partition.outstanding.add(offset)
    const redelivered = clock.nowMs() - partition.assignedAtMs < SUSPECT_MS
    return { message, receipt: lastReceipt, deliveryCount: undefined, redelivered }
  }
  const putBack = (receipt: number, delayMs: number): void => {
    const place = placeOf(receipt)
    if (place === undefined) return
    const { partition, offset } = place
    partition.position = Math.min(partition.position, offset)
    partition.pausedUntilMs = Math.max(partition.pausedUntilMs, clock.nowMs() + delayMs)
    for (const settled of partition.settled) {
      if (settled > offset) partition.settled.delete(settled)
    }
    if (delayMs > 0) clock.wake(delayMs)
  }

  return {
    kind: 'log',
    hasFor: (life) => readable(life).length > 0,
    receive: (life, most) => {
      const received: Received[] = []
      for (const partition of readable(life)) {
        while (received.length < most) {
          const next = read(partition)
          if (next === undefined) break
          received.push(next)
        }
      }
      return received
    },
    ack: (receipt) => {
      const place = placeOf(receipt)
      if (place === undefined) return false
      const { partition, offset } = place
      partition.settled.add(offset)
      while (partition.settled.has(partition.committed)) partition.committed += 1
      return true
    },
    putBack,
    finished: (receipts) => {
      for (const receipt of receipts) {
        const place = placeOf(receipt)
        if (place === undefined) continue
        const { offset, partition } = place
        // Nobody knows whether the broker heard of it: it is read again.
        if (!partition.settled.has(offset) && offset >= partition.committed) putBack(receipt, 0)
        partition.outstanding.delete(offset)
      }
    },
    left: (life) => {
      members = members.filter((member) => member !== life)
      for (const partition of partitions) {
        if (partition.owner === life) assign(partition, members[0])
      }
    },
    joined: (life) => {
      members = [...members, life]
      for (const partition of partitions) {
        if (partition.owner === undefined) assign(partition, life)
      }
    },
    duplicate: () => undefined,
    expire: () => undefined,
    rebalance: () => {
      for (const partition of partitions) {
        const at = partition.owner === undefined ? -1 : members.indexOf(partition.owner)
        assign(partition, members[(at + 1) % Math.max(1, members.length)])
      }
    },
    isEmpty: () => partitions.every(({ committed, messages: all }) => committed === all.length),
    digest: () =>
      partitions
        .map(({ owner, committed, position, pausedUntilMs, settled }) =>
          [owner?.name, committed, position, pausedUntilMs, ...settled].join(','),
        )
        .join(';'),
  }
}

function toPartitions(messages: readonly Message[]): readonly Partition[] {
  const byLane = new Map<string, Message[]>()
  for (const message of messages) {
    const lane = message.lane ?? 'none'
    byLane.set(lane, [...(byLane.get(lane) ?? []), message])
  }
  return [...byLane.values()].map((all) => ({
    messages: all,
    owner: undefined,
    assignment: 0,
    assignedAtMs: 0,
    committed: 0,
    position: 0,
    pausedUntilMs: 0,
    settled: new Set(),
    outstanding: new Set(),
  }))
}
