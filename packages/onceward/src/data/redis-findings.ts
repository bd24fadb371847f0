import { ConfigurationError } from '@onceward/core'
import { examineRedis } from '@onceward/redis/operator'
import { bytes } from '../render/units.ts'
import { type Finding, when } from './finding.ts'
import type { RedisServer } from './redis.ts'

/** The default `budgetMs` of leases beside an inbox: slower answers are not waited for. */
const BUDGET_MS = 20
const PINGS = 20
const about = 'redis'

/** @param isTruth - Guards without an inbox use this Redis, so only Redis remembers their events. */
export async function redisFindings(
  { client }: RedisServer,
  options: { readonly isTruth: boolean; readonly namespace: string | undefined },
): Promise<readonly Finding[]> {
  const info = parseInfo(await client.info())
  const found = await selfTestFindings(client, options)
  const roundTripMs = await medianPing(client)
  const [used, most] = [Number(info.get('used_memory')), Number(info.get('maxmemory'))]
  return [
    ...found,
    ...when(info.get('role') === 'slave', {
      ...{
        severity: 'error',
        about,
        finding: 'This Redis is a replica, so claims cannot be written.',
      },
      remedy: 'Connect the guards to the master, or through Sentinel.',
    }),
    ...when(roundTripMs > BUDGET_MS, {
      ...{ severity: 'warning', about },
      finding: `A PING takes ${roundTripMs.toFixed(1)} ms from here; guards with an inbox do not wait for Redis longer than ${BUDGET_MS} ms.`,
      remedy: 'Run the guards near Redis, or raise `budgetMs` of redisLeases.',
    }),
    ...when(most > 0 && used > most * 0.9, {
      ...{ severity: 'warning', about },
      finding: `${bytes(used)} of ${bytes(most)} of memory are in use.`,
      remedy: 'Raise maxmemory, or lower `rememberDoneMs` of redisLeases.',
    }),
    ...when(options.isTruth && Number(info.get('connected_slaves')) > 0, {
      ...{ severity: 'warning', about },
      finding:
        'Only Redis remembers processed events, and its replicas copy asynchronously: a failover loses the newest.',
      remedy: 'Give the guards an inbox, or accept that a failover repeats the newest effects.',
    }),
  ]
}

async function selfTestFindings(
  client: RedisServer['client'],
  options: { readonly isTruth: boolean; readonly namespace: string | undefined },
): Promise<readonly Finding[]> {
  try {
    const found = await examineRedis(client, options)
    return found.map(({ finding, remedy }) => ({
      ...{ severity: 'warning', about, finding: `${finding}.`, remedy: `Run \`${remedy}\`.` },
    }))
  } catch (error) {
    if (!(error instanceof ConfigurationError)) throw error
    const remedy = 'Connect to a Redis or Valkey 6.2 or newer without such a proxy.'
    return [{ severity: 'error', about, finding: error.message, remedy }]
  }
}

function parseInfo(text: string): ReadonlyMap<string, string> {
  const lines = text.split(/\r?\n/).filter((line) => line.includes(':'))
  return new Map(
    lines.map((line): [string, string] => {
      const colon = line.indexOf(':')
      return [line.slice(0, colon), line.slice(colon + 1)]
    }),
  )
}

async function medianPing(client: RedisServer['client']): Promise<number> {
  const times: number[] = []
  for (let ping = 0; ping < PINGS; ping += 1) {
    const before = performance.now()
    await client.ping()
    times.push(performance.now() - before)
  }
  return times.toSorted((one, other) => one - other)[PINGS / 2] ?? 0
}
