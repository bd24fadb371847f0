import { CONSUMER } from '../judge/audit.ts'
import type { RelayProcess } from '../world/relay.ts'
import type { Member, World } from '../world/world.ts'
import type { Fault } from './plan.ts'

/** What a fault does. `member` is the process it strikes; undefined while that is between two lives. */
type Strike = (world: World, fault: Fault, member: Member | undefined) => void

/** Longer than a name of the inbox's history is believed without having been read again, ms. */
const FAILOVER_MS = 6_000
const LONGEST_RESTART_MS = 2_000
const DRAIN_MS = 1_000
/** A call that hangs may outlast the right to publish. */
const LONGER = 2

const onProcess =
  (strike: (world: World, fault: Fault, member: Member) => void): Strike =>
  (world, fault, member) => {
    if (member !== undefined) strike(world, fault, member)
  }

const onRelay =
  (strike: (world: World, fault: Fault, relay: RelayProcess) => void): Strike =>
  (world, fault) => {
    const relay = world.relays[fault.process % world.relays.length]
    if (relay !== undefined) strike(world, fault, relay)
  }

const STRIKES: Readonly<Record<Fault['kind'], Strike>> = {
  crash: onProcess((world, _, { life }) => {
    world.audit.disturbed(life)
    world.crash(life)
  }),
  freeze: onProcess((world, { ms }, { life }) => {
    world.audit.disturbed(life)
    world.audit.pauses.blind(life, world.scheduler.nowMs + ms)
    life.frozenUntilMs = world.scheduler.nowMs + ms
    world.wake(ms)
  }),
  drain: onProcess((world, _, { consumer, life }) => {
    // A handler that ignores its signal keeps the counts of its transaction.
    world.audit.disturbed(life)
    void consumer.drain(DRAIN_MS).then(() => world.ended(life))
  }),
  'clock-jump': onProcess((world, { ms }, { life }) => {
    life.skewMs += ms * (world.dice.chance(0.5) ? 60 : -60)
  }),
  'pg-cut': onProcess((world, _, { life, links }) => {
    world.audit.disturbed(life)
    links.database.cut(() => world.dice.chance(0.5))
    world.audit.pauses.blind(life, world.scheduler.nowMs)
    world.database.orphan(life)
  }),
  'lease-cut': onProcess((world, _, { links }) => links.leases.cut(() => world.dice.chance(0.5))),
  'broker-cut': onProcess((world, _, { consumer, links }) => {
    links.broker.cut(() => world.dice.chance(0.5))
    consumer.reconnect()
  }),
  'pg-restart': (world, { ms }) => {
    disconnectAll(world)
    world.database.restart(Math.min(ms, LONGEST_RESTART_MS))
    world.audit.pauses.databaseDown(world.database.upAtMs)
  },
  'pg-failover': (world, { ms, target }) => {
    disconnectAll(world)
    const { history } = world.database
    world.database.failOver(1 + (target % 3), Math.max(FAILOVER_MS, ms))
    world.audit.pauses.databaseDown(world.database.upAtMs)
    world.audit.failedOver(history)
  },
  'lease-flush': ({ leases }) => leases.flush(),
  'lease-rollback': ({ leases }, { target }) => leases.rollBack(1 + target),
  'lease-down': ({ leases }, { ms }) => leases.goDown(ms),
  duplicate: ({ broker }, { target }) => broker.duplicate(target),
  expire: ({ broker }, { target }) => broker.expire(target),
  'place-hangs': ({ place }, { ms }) => place.hang(ms * LONGER),
  'place-refuses': ({ place }, { ms }) => place.refuse(ms),
  rebalance: ({ audit, broker, plan }) => {
    if (plan.transaction === 'batch') audit.takenOver()
    broker.rebalance()
  },
  replay,
  pause,
  'relay-crash': onRelay((world, _, { life }) => world.crashRelay(life)),
  'relay-freeze': onRelay((world, { ms }, { life }) => {
    life.frozenUntilMs = world.scheduler.nowMs + ms
    world.wake(ms)
  }),
  'relay-drain': onRelay((world, _, relay) => {
    void relay.drain().then(() => world.relayEnded(relay.life))
  }),
  'relay-cut': onRelay((world, _, { links }) => {
    links.database.cut(() => world.dice.chance(0.5))
  }),
  'sink-cut': onRelay((world, _, { links }) => links.sink.cut(() => world.dice.chance(0.5))),
  'sink-refuses': ({ scheduler, sink }, { ms }) => {
    sink.refusesUntilMs = scheduler.nowMs + ms
  },
  'sink-down': ({ scheduler, sink }, { ms }) => {
    sink.downUntilMs = scheduler.nowMs + ms
  },
  'sink-dislikes': ({ scheduler, sink }, { ms }) => {
    sink.dislikesUntilMs = scheduler.nowMs + ms
  },
}

export function strike(world: World, fault: Fault, member: Member | undefined): void {
  STRIKES[fault.kind](world, fault, member)
}

function disconnectAll({ audit, dice, members, relays }: World): void {
  for (const relay of relays) relay?.links.database.cut(() => dice.chance(0.5))
  for (const member of members) {
    if (member === undefined) continue
    audit.disturbed(member.life)
    member.links.database.cut(() => dice.chance(0.5))
  }
}

/** An operator pauses the consumer, and says when that ends or resumes it. */
function pause({ audit, database, scheduler, servers }: World, { ms, target }: Fault): void {
  const endsByItself = target % 2 === 0
  const untilMs = endsByItself ? scheduler.nowMs + ms : Number.POSITIVE_INFINITY
  database.pauses.operate(CONSUMER, { by: 'ana', forMs: endsByItself ? ms : undefined })
  audit.pauses.paused(untilMs)
  if (endsByItself) return
  const resume = (): void => {
    database.pauses.operate(CONSUMER, undefined)
    audit.pauses.resumed()
  }
  scheduler.setTimer(servers, resume, ms)
}

/** An operator puts a dead letter back. */
function replay({ audit, database, plan }: World, { target }: Fault): void {
  const one = audit.byKey(plan.events[target % plan.events.length]?.key ?? '')
  if (database.history.store.replay({ kind: 'event', id: one.id })) audit.replayed(one.id)
}
