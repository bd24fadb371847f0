import { StoreUnavailableError } from '@onceward/core'

/** Connections that business transactions leave to attempts, dead letters and cancels. */
export const SPARE_CONNECTIONS = 2

/** Gives a slot back; harmless the second time. */
export type GiveBack = () => void

export interface SlotWait {
  readonly boundMs: number
  /** Before those who came earlier: for runs that are already counted, since nothing may wait after a count. */
  readonly first?: boolean | undefined
}

/** A fair semaphore with an end to every wait. */
export interface Slots {
  /** At once, where one is free. */
  tryTake(): GiveBack | undefined
  /** @throws {@link StoreUnavailableError} when none became free in time. */
  take(wait: SlotWait): Promise<GiveBack>
}

/** Who may use the connections of one pool: shared by all guards on it. */
export interface PoolGate {
  readonly business: Slots
  readonly spare: Slots
}

const gates = new WeakMap<object, PoolGate>()

/**
 * The gate of a pool.
 *
 * @param pool - The object that is the same for all who share the pool.
 * @param size - Its connections; undefined when nobody knows: then only the pool itself makes callers wait.
 */
export function gateOf(pool: object, size: number | undefined): PoolGate {
  const known = gates.get(pool)
  if (known !== undefined) return known
  const gate = createGate(size)
  gates.set(pool, gate)
  return gate
}

function createGate(size: number | undefined): PoolGate {
  if (size === undefined) return { business: ENDLESS, spare: ENDLESS }
  // One connection (PGlite): everybody queues for it in the client.
  if (size === 1) return { business: createSlots(1), spare: ENDLESS }
  return {
    business: createSlots(Math.max(1, size - SPARE_CONNECTIONS)),
    spare: createSlots(Math.min(size, SPARE_CONNECTIONS)),
  }
}

const endless = (): GiveBack => () => undefined
const ENDLESS: Slots = { tryTake: endless, take: () => Promise.resolve(endless()) }

export function createSlots(count: number): Slots {
  const waiters: (() => void)[] = []
  let free = count
  const giveBack = (): GiveBack => {
    let held = true
    return () => {
      if (!held) return
      held = false
      const next = waiters.shift()
      if (next === undefined) free += 1
      else next()
    }
  }
  const tryTake = (): GiveBack | undefined => {
    if (free === 0) return undefined
    free -= 1
    return giveBack()
  }
  return {
    tryTake,
    take: ({ boundMs, first = false }) => {
      const taken = tryTake()
      if (taken !== undefined) return Promise.resolve(taken)
      return new Promise((resolve, reject) => {
        const waiter = (): void => {
          clearTimeout(timer)
          resolve(giveBack())
        }
        const timer = setTimeout(() => {
          waiters.splice(waiters.indexOf(waiter), 1)
          reject(new StoreUnavailableError(noneFree(count, boundMs)))
        }, boundMs)
        if (first) waiters.unshift(waiter)
        else waiters.push(waiter)
      })
    },
  }
}

function noneFree(count: number, boundMs: number): string {
  return `None of the ${count} connections for this became free within ${Math.round(boundMs)} ms: raise \`max\` of the pool, or lower \`concurrency\`.`
}
