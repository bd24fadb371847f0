import { randomUUID } from 'node:crypto'
import type { RequestListener, ServerResponse } from 'node:http'
import type { Inbox, LeaseStore } from '@onceward/core'
import type { BeginRequest, InboxSession } from '@onceward/core/ports'
import { createHttpGuard, type HttpGuard, HttpProblem } from '@onceward/http'
import { createWebhookGuard, standardWebhook } from '@onceward/http/webhooks'
import { pgInbox } from '@onceward/postgres/pg'
import { redisLeases } from '@onceward/redis'
import { heapBytes } from '@onceward/testing/heap'
import { Redis } from 'ioredis'
import { Pool, type PoolClient } from 'pg'
import { listen, listenerOf } from '../../packages/http/src/fixtures/servers.ts'
import { SECRET } from '../../packages/http/src/fixtures/webhooks.ts'
import type { HttpHandler } from '../../packages/http/src/options.ts'
import { die } from '../support/crash/crash.ts'
import { withReplacedMethods } from '../support/crash/with-replaced-methods.ts'
import { logger, reached, say } from '../support/workers/worker-channel.ts'
import type { Charge, Point, ServerConfig } from './protocol.ts'

/** Longer than any client waits: it shows that the lease of a dead server keeps no client waiting. */
const LEASE_MS = 600_000

const config = JSON.parse(process.argv[2] ?? '') as ServerConfig

/** Kills this process at its point, once the test has said `go`. */
async function at(point: Point): Promise<void> {
  if (config.crash?.at !== point) return
  await reached(point)
  await die()
}

const isVictim = (keys: readonly (string | undefined)[]): boolean =>
  config.crash !== undefined && keys.includes(config.crash.key)

function claimedKeys({ claim }: BeginRequest): readonly string[] {
  if (claim.kind === 'fresh') return claim.events.map(({ key }) => key)
  return claim.kind === 'counted' ? claim.events.map(({ event }) => event.key) : []
}

let claims = 0

function watchedInbox(inbox: Inbox<PoolClient>): Inbox<PoolClient> {
  return {
    open: async (registration) => {
      const session = await inbox.open(registration)
      const begin: InboxSession<PoolClient>['begin'] = async (request) => {
        if (!isVictim(claimedKeys(request))) return session.begin(request)
        claims += 1
        await at('before-begin')
        if (claims > 1) await at('between-runs')
        const begun = await session.begin(request)
        if (begun.kind !== 'open') return begun
        const { transaction } = begun
        const commit: typeof transaction.commit = async (what) => {
          const answer = await transaction.commit(what)
          await at('after-commit')
          return answer
        }
        return { ...begun, transaction: withReplacedMethods(transaction, { commit }) }
      }
      const park: InboxSession<PoolClient>['park'] = async (events, waitMs) => {
        if (!isVictim(events.map(({ key }) => key))) return session.park(events, waitMs)
        await at('before-park')
        const parked = await session.park(events, waitMs)
        await at('after-park')
        return parked
      }
      const count: InboxSession<PoolClient>['count'] = async (events, run) => {
        if (isVictim(events.map(({ key }) => key))) await at('before-count')
        return session.count(events, run)
      }
      return withReplacedMethods(session, { begin, count, park })
    },
  }
}

function leasesOf(port: number): LeaseStore {
  const client = new Redis(port, { retryStrategy: () => 50 })
  // ioredis reconnects by itself, and prints every error if there is no listener.
  client.on('error', () => undefined)
  const leases = redisLeases(client, { budgetMs: config.redisBudgetMs ?? 10_000 })
  return {
    ...leases,
    open: async (registration) => {
      const session = (await leases.open?.(registration)) ?? leases
      return {
        claim: (events) => session.claim(events),
        renew: (held, leaseMs) => session.renew(held, leaseMs),
        complete: async (done, rememberMs) => {
          await at('before-complete')
          return session.complete(done, rememberMs)
        },
        fail: (failed) => session.fail(failed),
        release: (held) => session.release(held),
        bury: (dead, rememberMs) => session.bury(dead, rememberMs),
      }
    },
  }
}

/** The same listener, with crash points in the writing of answers. */
function watchedListener(listener: RequestListener): RequestListener {
  return (request, response) => {
    const { 'idempotency-key': key, 'webhook-id': id } = request.headers
    if (isVictim([(key ?? id) as string | undefined])) watchReply(response)
    listener(request, response)
  }
}

function watchReply(response: ServerResponse): void {
  const end = response.end.bind(response) as (...args: readonly unknown[]) => ServerResponse
  response.end = ((...args: readonly unknown[]) => {
    const [body] = args
    if (config.crash?.at === 'before-reply') void at('before-reply')
    else if (config.crash?.at === 'in-reply') {
      const half = Buffer.from(body as Uint8Array).subarray(0, 10)
      response.write(half, () => void at('in-reply'))
    } else return end(...args)
    return response
  }) as typeof response.end
}

const pool = new Pool({ connectionString: config.databaseUrl, max: 12 })
// The database may be cut off in a test.
pool.on('error', () => undefined)

/** A client names its request, and a provider its event. */
const keyOf = (headers: Headers): string | undefined =>
  headers.get('idempotency-key') ?? headers.get('webhook-id') ?? undefined

const tenant = async ({ headers }: { readonly headers: Headers }): Promise<string | undefined> => {
  if (isVictim([keyOf(headers)])) await at('before-claim')
  return headers.get('x-account') ?? undefined
}

const charge: HttpHandler<unknown, PoolClient> = async ({ key, payload }, { tx }) => {
  const { cents, declined } = payload as Charge
  const chargeId = randomUUID()
  await tx.query('insert into charges (id, key, cents) values ($1, $2, $3)', [
    ...[chargeId, key, cents],
  ])
  if (isVictim([key])) await at('in-transaction')
  if (declined === true) {
    throw new HttpProblem({ status: 402, title: 'declined', detail: chargeId, store: true })
  }
  return {
    status: 201,
    headers: { location: `/charges/${chargeId}` },
    body: { chargeId, cents, at: Date.now() },
  }
}

const common = { consumer: 'charges', inbox: watchedInbox(pgInbox(pool)), logger, tenant } as const
const verify = standardWebhook(SECRET)

function guardOf(): HttpGuard {
  if (config.edge === 'webhook later') {
    return createWebhookGuard({ ...common, verify, run: 'later' }, charge)
  }
  const leases = config.redisPort === undefined ? {} : { leases: leasesOf(config.redisPort) }
  const options = { ...common, ...leases, leaseMs: LEASE_MS }
  return config.edge === 'request'
    ? createHttpGuard(options, charge)
    : createWebhookGuard({ ...options, verify }, charge)
}

const guard = guardOf()

process.on('message', (message: { readonly kind: string }) => {
  if (message.kind !== 'ask-usage') return
  say({ kind: 'reached', what: String(heapBytes()) })
})
process.on('disconnect', () => process.exit())
const server = await listen(watchedListener(await listenerOf(config.framework, guard)))
say({ kind: 'reached', what: server.url })
