import { hashText } from '../world/dice.ts'
import type { World } from '../world/world.ts'

/** Everything that looks at how long ago something was looks less far back, ms. */
const LONGEST_AGO_MS = 6_000

/** Instants that are compared with now: only the distance counts, and only so far back. */
const INSTANTS: ReadonlySet<string> = new Set([
  'countedAtMs',
  'identityAtMs',
  'leaseUntil',
  'notBefore',
  'nextTryAtMs',
  'dueAtMs',
  'lastAtMs',
])

/** What nothing acts on. */
const NOTES: ReadonlySet<string> = new Set([
  'event',
  'error',
  'firstFailedAt',
  'lastFailedAt',
  'processedAtMs',
])

/** What a world is like, but for when: equal for states from which the same can happen. `others`: what is not in it. */
export function keyOf(world: World, others: Readonly<Record<string, unknown>>): string {
  const { audit, broker, database, leases, scheduler } = world
  const { tables } = database.history.store
  const parts = [
    scheduler.digest(),
    broker.digest(),
    ...[
      [...tables.rows],
      [...tables.troubles],
      [...database.history.ledger],
      [...leases.states],
      [...audit.cases.values()],
      [...database.backends].map(({ owner }) => owner.name),
      others,
    ].map((part) => text(part, scheduler.nowMs)),
  ].join('\n')
  const named = inOrderOfAppearance(parts)
  return `${hashText(named)}.${hashText(named, 0x9e3779b9)}`
}

/** Owner tokens: who made them, and a number that says nothing. */
export const TOKEN: RegExp = /(P\d+\.\d+)-\d+/g

function inOrderOfAppearance(parts: string): string {
  const names = new Map<string, string>()
  return parts.replace(TOKEN, (token, life: string) => {
    const name = names.get(token) ?? `${life}#${names.size}`
    names.set(token, name)
    return name
  })
}

function text(value: unknown, nowMs: number): string {
  return JSON.stringify(value, (name, each: unknown) => {
    if (NOTES.has(name)) return undefined
    if (INSTANTS.has(name) && typeof each === 'number') {
      return Math.max(each - nowMs, -LONGEST_AGO_MS)
    }
    return typeof each === 'bigint' ? String(each) : each
  })
}
