import { createGuard, type Guard, homeRegion, type Logger } from '@onceward/core'
import { memoryInbox, memoryLeases, toDelivery } from '@onceward/core/memory'
import { createDice, type Dice } from '../world/dice.ts'
import { createLife, createRuntime, type Life } from '../world/process.ts'
import { type Actor, type Choose, quiet, Scheduler } from '../world/scheduler.ts'

const REGIONS = ['eu', 'us'] as const
type Region = (typeof REGIONS)[number]

export interface RegionsPlan {
  readonly seed: number
  /** One Postgres for both regions, or nothing but the lease store of each region. */
  readonly authority: 'postgres' | 'none'
  /** `cut`: eu loses its keys while it works. `drained`: its guard is closed first. */
  readonly failover: 'cut' | 'drained'
}

export interface RegionsResult {
  /** Committed effects with Postgres, completed calls without, by event: when, and where. */
  readonly effects: ReadonlyMap<string, readonly { readonly atMs: number; readonly at: Region }[]>
  /** Runs of one event that overlapped. */
  readonly overlaps: number
  /** Homes that changed. */
  readonly moved: ReadonlySet<string>
  /** When the list changed. */
  readonly changedAtMs: number
}

const FAILOVER_MS = 30_000
/** The broker brings no copy later than this after the first delivery. */
export const HORIZON_MS = 60_000
/** Routers do not learn of a new list at the same moment. */
export const ROLLOUT_MS = 5_000
const EVENTS = 24
const LAST_SENT_MS = 40_000
const LONGEST_HANDLER_MS = 8_000
const CONSUMER = 'ledger'

const nothing = (): void => undefined
const silent: Logger = { debug: nothing, info: nothing, warn: nothing, error: nothing }

/** Two regions, two Redis, at most one Postgres: events with one home each, copies, and a failover of a home. */
export async function runRegions(plan: RegionsPlan): Promise<RegionsResult> {
  const scheduler = new Scheduler(false)
  const dice = createDice(plan.seed)
  const servers: Actor = { name: 'servers', isAlive: true, frozenUntilMs: 0 }
  const clock = createRuntime(scheduler, dice.apart('servers'), () => servers)
  const seen: Seen = { effects: new Map(), running: new Map(), overlaps: 0 }
  const inbox = memoryInbox()
  const guards = Object.fromEntries(
    REGIONS.map((region, index) => {
      const options = { scheduler, dice: dice.apart(region), index, name: region }
      const life = createLife({ ...options, isPlain: true, onStall: nothing })
      const stores = { leases: memoryLeases(clock), inbox }
      return [region, createRegion({ plan, region, life, stores, seen, dice: dice.apart('work') })]
    }),
  ) as Record<Region, Guard>

  const moved = new Set<string>()
  let isClosing = false
  // A drained home keeps its keys until its last run has ended; a home that is cut off keeps running.
  let changedAtMs = plan.failover === 'cut' ? FAILOVER_MS : Number.POSITIVE_INFINITY
  const drain = async (): Promise<void> => {
    isClosing = true
    await guards.eu.close()
    changedAtMs = scheduler.nowMs
  }
  if (plan.failover === 'drained') scheduler.setTimer(servers, () => void drain(), FAILOVER_MS)

  /** The home of a delivery now, as its router knows the list; undefined if the home takes nothing more. */
  const homeOf = (key: string, learnsAfterMs: number): Region | undefined => {
    const isChanged = scheduler.nowMs >= changedAtMs + learnsAfterMs
    const home = homeRegion(key, isChanged ? ['us'] : REGIONS) as Region
    if (isChanged && homeRegion(key, REGIONS) === 'eu') moved.add(key)
    return home === 'eu' && isClosing ? undefined : home
  }

  let open = 0
  const deliver = (key: string, atMs: number): void => {
    open += 1
    const learnsAfterMs = dice.below(ROLLOUT_MS)
    const again = (afterMs: number): void => {
      scheduler.setTimer(servers, () => void run(), afterMs)
    }
    const run = async (): Promise<void> => {
      const region = homeOf(key, learnsAfterMs)
      if (region === undefined) return again(1_000)
      const message = { messageId: key, headers: { 'idempotency-key': key } }
      const settlement = await guards[region].process(toDelivery({ key }, message))
      if (settlement.kind === 'ack') open -= 1
      else again(settlement.kind === 'defer' ? settlement.until - clock.now() : 1_000)
    }
    again(atMs - scheduler.nowMs)
  }
  for (let n = 0; n < EVENTS; n += 1) {
    const sentAtMs = dice.below(LAST_SENT_MS)
    deliver(`account-${n}`, sentAtMs)
    const copies = dice.below(3)
    for (let copy = 0; copy < copies; copy += 1) {
      deliver(`account-${n}`, sentAtMs + dice.below(HORIZON_MS))
    }
  }

  const inOrder: Choose = () => 0
  for (await quiet(); open > 0; await quiet()) {
    if (!scheduler.step(inOrder)) throw new Error(`seed ${plan.seed}: ${open} deliveries never end`)
  }
  return { effects: seen.effects, overlaps: seen.overlaps, moved, changedAtMs }
}

interface Seen {
  readonly effects: Map<string, { atMs: number; at: Region }[]>
  readonly running: Map<string, number>
  overlaps: number
}

function createRegion(options: {
  readonly plan: RegionsPlan
  readonly region: Region
  readonly life: Life
  readonly stores: {
    readonly inbox: ReturnType<typeof memoryInbox>
    readonly leases: ReturnType<typeof memoryLeases>
  }
  readonly seen: Seen
  readonly dice: Dice
}): Guard {
  const { dice, life, plan, region, seen, stores } = options
  const { runtime } = life
  const happened = (key: string): void => {
    const effects = seen.effects.get(key) ?? []
    seen.effects.set(key, [...effects, { atMs: runtime.monotonic(), at: region }])
  }
  const keys = new Map<string, string>()
  const work = async (key: string, id: string): Promise<void> => {
    keys.set(id, key)
    const running = (seen.running.get(key) ?? 0) + 1
    seen.running.set(key, running)
    if (running > 1) seen.overlaps += 1
    const ms = dice.from(50, LONGEST_HANDLER_MS)
    await new Promise<void>((resolve) => runtime.setTimer(resolve, ms))
    seen.running.set(key, running - 1)
  }
  const common = { consumer: CONSUMER, logger: silent, runtime, leases: stores.leases }
  if (plan.authority === 'none') {
    return createGuard({ ...common, onTakeover: 'retry' }, async ({ idempotencyKey, key }) => {
      await work(key, idempotencyKey)
      // The call to the service outside, which knows no keys.
      happened(key)
    })
  }
  return createGuard(
    {
      ...common,
      inbox: stores.inbox,
      observe: ({ commitMs, eventId = '', settlement }) => {
        const isCommitted = settlement.kind === 'ack' && commitMs !== undefined
        if (isCommitted) happened(keys.get(eventId) ?? eventId)
      },
    },
    async ({ idempotencyKey, key }) => work(key, idempotencyKey),
  )
}
