import { type ProxiedConnection, proxy, type TcpProxy, until } from '@onceward/testing'
import { BROKERS } from '../../brokers/index.ts'
import type { Address } from './address.ts'
import type { Dependency, Plan } from './plan.ts'

/** A proxy before each dependency of the subject. */
export type Links = Readonly<Record<Dependency, TcpProxy>>

export async function openLinks(targets: Readonly<Record<Dependency, Address>>): Promise<Links> {
  const [postgres, redis, broker, publish] = await Promise.all([
    proxy(targets.postgres),
    proxy(targets.redis),
    proxy(targets.broker),
    proxy(targets.publish),
  ])
  return { postgres, redis, broker, publish }
}

/** Begins the hang of a plan; the answer ends it. */
export async function hang(links: Links, plan: Plan): Promise<() => Promise<void>> {
  const link = links[plan.dependency]
  const { direction, connections, arrivals, ending } = plan
  let hasBegun = false
  let chosen: ProxiedConnection | undefined
  const only = (connection: ProxiedConnection): boolean => {
    if (hasBegun) return arrivals !== 'work'
    chosen ??= connection
    return connections === 'all' || chosen === connection
  }
  link.pause({ only, ...(direction === 'both' ? {} : { direction }) })
  hasBegun = true
  if (arrivals === 'ignored') await link.ignore(true)
  return async () => {
    if (ending === 'cut') link.cut()
    await link.ignore(false)
    link.resume()
  }
}

/** The connections that are still open after all clients of the subject were closed, by dependency. */
export async function leftOpen(
  links: Links,
  plan: Plan,
  deadlineMs: number,
): Promise<readonly string[]> {
  const open = (): string[] =>
    Object.entries(links)
      .filter(([name, { connections }]) => !isExcused(plan, name) && connections > 0)
      .map(([name, { connections }]) => `${name} ${connections}`)
  await until(() => open().length === 0, { deadlineMs }).catch(() => undefined)
  return open()
}

/** Some clients connect again when they are called after their end, which only their user can hinder. */
export function isExcused({ adapter, drains }: Plan, link: string): boolean {
  const { closedClients } = BROKERS[adapter].traits
  if (link === 'publish') return closedClients.publish === 'connect again'
  // A run that outlives the drain is settled when it ends.
  return link === 'broker' && drains && closedClients.consume === 'connect again'
}
