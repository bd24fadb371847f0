import { type ProxiedConnection, proxy, type TcpProxy, until } from '@onceward/testing'
import type { Dependency, Plan } from './plan.ts'

export type Address = { readonly host: string; readonly port: number }

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
  { adapter }: Plan,
  deadlineMs: number,
): Promise<readonly string[]> {
  // A producer of kafkajs that was disconnected during a send may connect again; it is the user's (brokers.md K21).
  const isOurs = (name: string): boolean => !(adapter === 'kafka' && name === 'publish')
  const open = (): string[] =>
    Object.entries(links)
      .filter(([name, { connections }]) => isOurs(name) && connections > 0)
      .map(([name, { connections }]) => `${name} ${connections}`)
  await until(() => open().length === 0, { deadlineMs }).catch(() => undefined)
  return open()
}
