import { StoreUnavailableError } from '@onceward/core'
import { createSemaphore, type Release } from '@onceward/core/adapter'
import type { Runtime } from '@onceward/core/ports'

/** Connections of a pool that business transactions leave to counts, dead letters, the poller and cancels. */
export const SPARE_CONNECTIONS = 2

export interface SlotRequest {
  readonly runtime: Runtime
  /** Longest wait. */
  readonly limitMs: number
  /** Served before earlier requests: for runs that are already counted, because they must start soon. */
  readonly first?: boolean | undefined
}

/** Permission to use connections of one pool; each wait for it has a limit. */
export interface Slots {
  /** The release, if a slot is free now. */
  tryAcquire(): Release | undefined
  /** @throws {@link StoreUnavailableError} when no slot became free in time. */
  acquire(request: SlotRequest): Promise<Release>
  /** Whether somebody waits for a slot. */
  isAwaited(): boolean
}

/** The slots for the connections of one pool; all guards on the pool share them. */
export interface PoolGate {
  readonly business: Slots
  readonly spare: Slots
}

/**
 * Connections that a pool of pg opens at most. pg compares their number with `max`, so a fraction (cores × 1.5) is full
 * with the next whole one, and a text of digits is a number. Undefined for other values: pg has no limit then.
 */
export function sizeOf({
  options,
}: {
  readonly options: { readonly max: unknown }
}): number | undefined {
  const size = Math.ceil(Number(options.max))
  return Number.isFinite(size) ? size : undefined
}

const gates = new WeakMap<object, PoolGate>()

/**
 * The gate of a pool.
 *
 * @param pool - The object that is the same for all users of the pool.
 * @param size - Connections of the pool. If undefined, only the pool itself makes callers wait.
 */
export function gateOf(pool: object, size: number | undefined): PoolGate {
  const known = gates.get(pool)
  if (known !== undefined) return known
  const gate = createGate(size)
  gates.set(pool, gate)
  return gate
}

function createGate(size: number | undefined): PoolGate {
  if (size === undefined) return { business: UNLIMITED, spare: UNLIMITED }
  // PGlite has one connection, and every caller queues for it in the client.
  if (size === 1) return { business: limitedTo(1), spare: UNLIMITED }
  return {
    business: limitedTo(Math.max(1, size - SPARE_CONNECTIONS)),
    spare: limitedTo(Math.min(size, SPARE_CONNECTIONS)),
  }
}

const acquired = (): Release => () => undefined
const UNLIMITED: Slots = {
  tryAcquire: acquired,
  acquire: () => Promise.resolve(acquired()),
  isAwaited: () => false,
}

function limitedTo(count: number): Slots {
  const semaphore = createSemaphore(count)
  return {
    tryAcquire: () => semaphore.tryAcquire(),
    isAwaited: () => semaphore.waiting > 0,
    acquire: async ({ runtime, limitMs, first }) => {
      const release = await semaphore.acquire({ limit: { runtime, ms: limitMs }, first })
      if (release !== undefined) return release
      throw new StoreUnavailableError(
        `None of the ${count} connections for this became free within ${Math.round(limitMs)} ms: raise \`max\` of the pool, or lower \`concurrency\`.`,
      )
    },
  }
}
