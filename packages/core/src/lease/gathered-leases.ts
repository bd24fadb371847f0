import type { HeldAnswer, LeaseSession } from '../model/lease-store.ts'

/**
 * The verbs that end claims, gathered: what many members of a slice have to say in one moment costs one round trip,
 * not one each. Nothing waits for more to come.
 */
export function gatheredLeases(session: LeaseSession): LeaseSession {
  return {
    claim: (claims) => session.claim(claims),
    renew: (held, leaseMs) => session.renew(held, leaseMs),
    complete: gather((done, rememberMs) => session.complete(done, rememberMs)),
    fail: gather((failed) => session.fail(failed)),
    release: gather((held) => session.release(held)),
    bury: gather((dead, rememberMs) => session.bury(dead, rememberMs)),
  }
}

type Tell<One> = (all: readonly One[], rememberMs: number) => Promise<readonly HeldAnswer[]>

interface Gathering<One> {
  readonly all: One[]
  readonly told: Promise<readonly HeldAnswer[]>
}

function gather<One>(
  tell: Tell<One>,
): (some: readonly One[], rememberMs?: number) => Promise<readonly HeldAnswer[]> {
  const open = new Map<number, Gathering<One>>()
  const begin = (rememberMs: number): Gathering<One> => {
    const all: One[] = []
    const told = Promise.resolve().then(() => {
      open.delete(rememberMs)
      return tell(all, rememberMs)
    })
    const gathering = { all, told }
    open.set(rememberMs, gathering)
    return gathering
  }
  return async (some, rememberMs = 0) => {
    const { all, told } = open.get(rememberMs) ?? begin(rememberMs)
    const from = all.length
    all.push(...some)
    return (await told).slice(from, from + some.length)
  }
}
