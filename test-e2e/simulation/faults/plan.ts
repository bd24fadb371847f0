import { createDice, type Dice } from '../world/dice.ts'
import { drawPauses } from './pauses.ts'

/** What the handler does with an event. */
export type Behaviour =
  | { readonly kind: 'ok' }
  /** Takes `ms` of virtual time. */
  | { readonly kind: 'slow'; readonly ms: number }
  /** Throws `times` times, after it has written. */
  | { readonly kind: 'flaky'; readonly times: number }
  /** A statement fails with 40001 `times` times. */
  | { readonly kind: 'serialization'; readonly times: number }
  /** A unique violation of the business, `times` times. */
  | { readonly kind: 'unique'; readonly times: number }
  /** Defers the event `times` times, after it has written; every other one catches what `defer` throws. */
  | { readonly kind: 'defers'; readonly times: number }
  /** Pauses the consumer the first time, after it has written. */
  | { readonly kind: 'pauses'; readonly ms: number }
  | { readonly kind: 'always-fails' }
  | { readonly kind: 'fatal' }
  /** A statement fails, and the handler goes on as if nothing were. */
  | { readonly kind: 'swallows' }
  /** Never ends by itself; writes after its deadline. */
  | { readonly kind: 'hangs' }
  /** Kills its process, `times` times. */
  | { readonly kind: 'kills'; readonly times: number }

export interface EventPlan {
  readonly key: string
  readonly behaviour: Behaviour
  readonly lane: string | undefined
}

export interface MessagePlan {
  readonly event: number
  /** Another payload under the same key, or a body that nobody can read. */
  readonly variant: 'plain' | 'conflict' | 'garbage'
}

/** What goes wrong, and when: at a step, or as soon as a scheduling point of that name is there. */
export interface Fault {
  readonly kind:
    | 'crash'
    | 'freeze'
    | 'drain'
    | 'clock-jump'
    | 'pg-cut'
    | 'pg-restart'
    | 'pg-failover'
    | 'lease-flush'
    | 'lease-rollback'
    | 'lease-down'
    | 'lease-cut'
    | 'broker-cut'
    | 'duplicate'
    | 'expire'
    | 'place-hangs'
    | 'place-refuses'
    | 'rebalance'
    | 'replay'
    | 'pause'
    | 'relay-crash'
    | 'relay-freeze'
    | 'relay-drain'
    | 'relay-cut'
    | 'sink-cut'
    | 'sink-refuses'
    | 'sink-down'
    | 'sink-dislikes'
  readonly at: { readonly step: number } | { readonly label: string; readonly nth: number }
  /** Of a process, or of a relay. */
  readonly process: number
  readonly ms: number
  /** Message of `duplicate` and `expire`, event of `replay`. */
  readonly target: number
}

/** Handlers send messages, and relays of their own publish them. */
export interface OutboxPlan {
  readonly relays: number
  /** Messages of each event, by its number. */
  readonly sends: readonly number[]
}

export type Broker = 'queue' | 'fifo' | 'channel' | 'log'

export interface Plan {
  readonly seed: number
  readonly composition: 'inbox' | 'inbox+leases' | 'leases'
  readonly transaction: 'each' | 'batch'
  /** Leases beside an inbox are taken only for what may be a copy. */
  readonly isByNeed?: boolean | undefined
  readonly broker: Broker
  readonly processes: number
  /** Receiving loops per process. */
  readonly loops: number
  readonly batchSize: number
  readonly maxAttempts: number
  readonly events: readonly EventPlan[]
  readonly messages: readonly MessagePlan[]
  readonly faults: readonly Fault[]
  /** Each process has another guard, without keys and without an inbox; so many of its runs kill the process. */
  readonly bystander?: { readonly poison: number } | undefined
  /** `afterCommit` sends a reply through the broker, which may not answer. */
  readonly replies?: boolean | undefined
  readonly outbox?: OutboxPlan | undefined
  /** Each message is split into one event. */
  readonly splits?: boolean | undefined
  /** The lanes are those of the user's `orderingKey`, so redelivered messages are counted before they are read. */
  readonly hasOwnLanes?: boolean | undefined
  /** Guards look for pauses. */
  readonly hasPauses?: boolean | undefined
  /** Every interleaving is tried: nothing is left to chance. */
  readonly isPlain?: boolean | undefined
  /** How the next step is chosen. `starve`: one process is chosen rarely. */
  readonly policy: 'even' | 'sticky' | 'starve'
}

const LABELS = [
  'receive<',
  'open<',
  'claim>',
  'claim<',
  'complete>',
  'complete<',
  'begin>',
  'begin<',
  'classify<',
  'suspect>',
  'suspect<',
  'count>',
  'count<',
  'write>',
  'write<',
  'commit>',
  'commit<',
  'fail>',
  'fail<',
  'bury<',
  'take-publishing>',
  'take-publishing<',
  'end-publishing>',
  'end-publishing<',
  'dead-letter>',
  'dead-letter<',
  'ack>',
  'ack<',
  'defer>',
] as const

/** Everything about one schedule but its interleaving, from its seed. */
export function drawPlan(seed: number): Plan {
  const dice = createDice(seed).apart('plan')
  const outboxDice = createDice(seed).apart('outbox')
  const composition = drawComposition(dice)
  const ownLanes = createDice(seed).apart('own-lanes')
  const hasOwnLanes = ownLanes.chance(0.2)
  const outbox = drawOutbox(outboxDice, composition)
  const pauses = composition === 'leases' ? undefined : drawPauses(createDice(seed).apart('pauses'))
  const broker = dice.pick<Broker>(['queue', 'queue', 'fifo', 'channel', 'log'])
  const lanes = broker === 'fifo' || broker === 'log' || dice.chance(0.3)
  const events = Array.from({ length: dice.pick([1, 1, 2, 2, 3, 4]) }, (_, index): EventPlan => {
    return {
      key: `e${index}`,
      behaviour: drawBehaviour(dice),
      lane: lanes ? `lane-${dice.below(2)}` : undefined,
    }
  })
  return {
    seed,
    composition,
    transaction: composition !== 'leases' && dice.chance(0.4) ? 'batch' : 'each',
    isByNeed: dice.apart('by-need').chance(0.5),
    broker,
    processes: dice.pick([2, 2, 2, 1, 3]),
    loops: dice.pick([1, 1, 2]),
    batchSize: dice.pick([1, 2, 4]),
    maxAttempts: dice.pick([2, 3, 4]),
    events: events.map((event, index): EventPlan => {
      const { handler } = pauses ?? {}
      const isPausing = handler !== undefined && index === handler.event % events.length
      return isPausing ? { ...event, behaviour: { kind: 'pauses', ms: handler.ms } } : event
    }),
    messages: drawMessages(dice, events.length),
    faults: [
      ...drawFaults(dice, composition),
      ...(outbox === undefined ? [] : drawRelayFaults(outboxDice)),
      ...(hasOwnLanes ? drawCutsOfReads(ownLanes) : []),
      ...(pauses?.faults ?? []),
    ],
    outbox,
    policy: dice.pick(['even', 'even', 'sticky', 'starve']),
    // Drawn last, so that the rest of a plan stays what it was.
    bystander: dice.chance(0.25) ? { poison: dice.pick([0, 1, 2]) } : undefined,
    replies: dice.chance(0.2),
    splits: dice.chance(0.15),
    hasOwnLanes,
    hasPauses: pauses !== undefined,
  }
}

function drawComposition(dice: Dice): Plan['composition'] {
  return dice.pick(['inbox', 'inbox', 'inbox+leases', 'inbox+leases', 'leases'])
}

function drawOutbox(dice: Dice, composition: Plan['composition']): OutboxPlan | undefined {
  if (composition === 'leases' || !dice.chance(0.25)) return undefined
  const sends = Array.from({ length: 4 }, () => dice.from(1, 3))
  return { relays: dice.pick([1, 2, 2, 3]), sends }
}

function drawBehaviour(dice: Dice): Behaviour {
  const times = dice.from(1, 3)
  return dice.pick<Behaviour>([
    { kind: 'ok' },
    { kind: 'ok' },
    { kind: 'ok' },
    { kind: 'defers', times },
    { kind: 'slow', ms: dice.pick([1_000, 4_500, 6_000, 12_000]) },
    { kind: 'flaky', times },
    { kind: 'serialization', times },
    { kind: 'unique', times },
    { kind: 'always-fails' },
    { kind: 'fatal' },
    { kind: 'swallows' },
    { kind: 'hangs' },
    { kind: 'kills', times: dice.pick([1, 2, 99]) },
  ])
}

function drawMessages(dice: Dice, events: number): readonly MessagePlan[] {
  return Array.from({ length: events }, (_, event) => event).flatMap((event): MessagePlan[] => {
    const plain = { event, variant: 'plain' } as const
    if (dice.chance(0.05)) return [plain, { event, variant: 'conflict' }]
    if (dice.chance(0.04)) return [plain, { event, variant: 'garbage' }]
    return dice.chance(0.1) ? [plain, plain] : [plain]
  })
}

const EVERYWHERE = [
  'crash',
  'crash',
  'crash',
  'freeze',
  'drain',
  'broker-cut',
  'duplicate',
  'duplicate',
  'expire',
  'rebalance',
  'clock-jump',
  'place-hangs',
  'place-refuses',
] as const
const OF_INBOX = ['pg-cut', 'pg-cut', 'pg-restart', 'pg-failover', 'replay'] as const
const OF_LEASES = ['lease-cut', 'lease-cut', 'lease-down'] as const
/** A lease store that is the truth may not lose it. */
const OF_CACHE = ['lease-flush', 'lease-flush', 'lease-rollback'] as const

const OF_RELAYS = [
  'relay-crash',
  'relay-crash',
  'relay-freeze',
  'relay-freeze',
  'relay-drain',
  'relay-cut',
  'sink-cut',
  'sink-refuses',
  'sink-down',
  'sink-dislikes',
] as const

const LABELS_OF_RELAYS = [
  'lease>',
  'lease<',
  'read<',
  'publish>',
  'publish>',
  'publish<',
  'publish<',
  'remove>',
  'remove<',
  'fail-message>',
] as const

function drawRelayFaults(dice: Dice): readonly Fault[] {
  return Array.from({ length: dice.pick([0, 1, 2, 2, 3, 4]) }, (): Fault => {
    const at = dice.chance(0.3)
      ? { step: dice.below(160) }
      : { label: dice.pick(LABELS_OF_RELAYS), nth: dice.from(1, 3) }
    const ms = dice.pick([200, 2_000, 6_000, 15_000])
    return { kind: dice.pick(OF_RELAYS), at, process: dice.below(3), ms, target: 0 }
  })
}

/** While redelivered messages are counted, before they are read. */
function drawCutsOfReads(dice: Dice): readonly Fault[] {
  return Array.from({ length: dice.from(1, 4) }, (_, target): Fault => {
    const at = { label: 'start-messages<', nth: dice.from(1, 3) }
    return { kind: 'pg-cut', at, process: dice.below(2), ms: 200, target }
  })
}

function drawFaults(dice: Dice, composition: Plan['composition']): readonly Fault[] {
  const kinds: [Fault['kind'], ...Fault['kind'][]] = [...EVERYWHERE]
  if (composition !== 'leases') kinds.push(...OF_INBOX)
  if (composition !== 'inbox') kinds.push(...OF_LEASES)
  if (composition === 'inbox+leases') kinds.push(...OF_CACHE)
  return Array.from({ length: dice.pick([0, 1, 1, 2, 2, 3, 4, 6]) }, (): Fault => {
    const at = dice.chance(0.5)
      ? { step: dice.below(160) }
      : { label: dice.pick(LABELS), nth: dice.from(1, 3) }
    return {
      kind: dice.pick(kinds),
      at,
      process: dice.below(3),
      ms: dice.pick([200, 2_000, 6_000, 15_000]),
      target: dice.below(4),
    }
  })
}
