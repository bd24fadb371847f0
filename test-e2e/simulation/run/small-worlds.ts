import type { EventPlan, Plan } from '../faults/plan.ts'

/** A world that is small enough to try everything. */
export interface SmallWorld {
  readonly name: string
  readonly plan: Plan
  /** How often each fault may happen, at any state. */
  readonly budget: Budget
  /** Tried in every run of the tests; the others in `npm run simulate -- --explore`. */
  readonly isQuick: boolean
}

export interface Budget {
  readonly crash: number
  readonly flush: number
  readonly duplicate: number
}

const event = (behaviour: EventPlan['behaviour']['kind'], lane?: string): EventPlan => {
  const kinds = { kind: behaviour, times: 1, ms: 1_000 } as unknown as EventPlan['behaviour']
  return { key: '', behaviour: kinds, lane }
}

const NOTHING: Budget = { crash: 0, flush: 0, duplicate: 0 }

function world(
  name: string,
  events: readonly EventPlan[],
  over: Partial<Plan> & { readonly budget: Partial<Budget>; readonly isQuick?: boolean },
): SmallWorld {
  const { budget, isQuick = false, ...plan } = over
  const named = events.map((each, index) => ({ ...each, key: `e${index}` }))
  return {
    name,
    isQuick,
    budget: { ...NOTHING, ...budget },
    plan: {
      seed: 1,
      composition: 'inbox',
      transaction: 'each',
      broker: 'channel',
      processes: 2,
      loops: 1,
      batchSize: 2,
      maxAttempts: 2,
      events: named,
      messages: named.map((_, index) => ({ event: index, variant: 'plain' })),
      faults: [],
      policy: 'even',
      isPlain: true,
      ...plan,
    },
  }
}

const leases = { composition: 'inbox+leases' } as const
const batch = { transaction: 'batch' } as const

/** Two processes, one or two events; at most one crash, one loss of the lease store, one duplicate. */
export const SMALL_WORLDS: readonly SmallWorld[] = [
  world('one event', [event('ok')], { isQuick: true, budget: { crash: 1, duplicate: 1 } }),
  world('one event, leases', [event('ok')], {
    ...leases,
    budget: { crash: 1, duplicate: 1, flush: 1 },
  }),
  world('one event that fails once', [event('flaky')], { budget: { crash: 1, duplicate: 1 } }),
  world('one event that fails once, leases', [event('flaky')], {
    ...leases,
    budget: { crash: 1, duplicate: 1, flush: 1 },
  }),
  world('one event that kills once', [event('kills')], { isQuick: true, budget: { duplicate: 1 } }),
  world('one event that kills once, leases', [event('kills')], {
    ...leases,
    budget: { duplicate: 1, flush: 1 },
  }),
  world('one fatal event', [event('fatal')], { budget: { crash: 1, duplicate: 1 } }),
  world('two events, a transaction each', [event('ok'), event('ok')], {
    budget: { crash: 1 },
  }),
  world('two events in one transaction', [event('ok'), event('ok')], {
    ...batch,
    budget: { crash: 1, duplicate: 1 },
  }),
  world('a failing event beside another', [event('flaky'), event('ok')], {
    ...batch,
    budget: { crash: 1 },
  }),
  world('a poison beside another', [event('kills'), event('ok')], {
    ...batch,
    isQuick: true,
    budget: { duplicate: 1 },
  }),
  world('two events of one lane', [event('flaky', 'a'), event('ok', 'a')], {
    ...batch,
    broker: 'fifo',
    budget: { crash: 1 },
  }),
  world('leases alone', [event('ok')], {
    composition: 'leases',
    isQuick: true,
    budget: { crash: 1, duplicate: 1 },
  }),
  world('leases alone, an event that fails once', [event('flaky')], {
    composition: 'leases',
    budget: { crash: 1, duplicate: 1 },
  }),
  world('two events in one transaction, leases', [event('ok'), event('ok')], {
    ...leases,
    ...batch,
    budget: { crash: 1, duplicate: 1, flush: 1 },
  }),
]
