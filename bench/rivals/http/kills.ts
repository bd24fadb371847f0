import type { PostgresServer } from '@onceward/testing/servers'
import { createEffects, type Order } from '../../load/effects.ts'
import { openCache } from '../../redis/testbed.ts'
import { inLanes } from '../../runner/rounds.ts'
import { Aim, type Fate, strike } from '../aim.ts'
import { withPool } from '../database.ts'
import { through, watchingPostgres } from '../wire.ts'
import { type Answer, Clients, newOrders } from './client.ts'
import type { HttpRival } from './rival.ts'
import { type RivalServer, startServer } from './server.ts'

export interface HttpDamage {
  /** Orders with an answer and without an effect. */
  readonly lost: number
  /** Orders with several effects. */
  readonly doubled: number
  /** Orders whose key brings another answer than the client had. */
  readonly wrong: number
  /** Orders whose client never got an answer. */
  readonly unanswered: number
}

const ORDERS = 300
const WIDTH = 8
const RETRY_MS = 20
/** A client gives up after waiting so long for servers that run. How long one takes to start depends on the machine. */
const PATIENCE_MS = 20_000

/**
 * Eight clients pay for 300 orders, each with one key until it is answered, while the server is killed ten times: five
 * times with effects that are not committed, five times when Postgres has committed and the client has no answer yet.
 * Then each key is sent once more.
 */
export async function killServerTenTimes(
  rival: HttpRival,
  fate: Fate,
  postgres: PostgresServer,
): Promise<HttpDamage> {
  await using cache = await openCache()
  await using stack = new AsyncDisposableStack()
  const databaseUrl = await postgres.createDatabase()
  await rival.setUp(databaseUrl)
  await withPool(databaseUrl, createEffects)
  const aim = new Aim()
  const proxy = stack.use(await watchingPostgres(databaseUrl, (moment) => aim.at(moment)))
  const settings = {
    name: rival.name,
    databaseUrl: through(databaseUrl, proxy),
    redisUrl: cache.url,
  }
  let server: RivalServer | undefined
  const start = async (): Promise<RivalServer> => {
    server = stack.use(await startServer(settings))
    return server
  }
  const clients = stack.use(new Clients(WIDTH))
  const orders = newOrders(ORDERS)
  const answers = new Map<string, Answer>()
  const paying = inLanes(orders, WIDTH, async (order) => {
    const answer = await pay(clients, () => server?.port, order)
    if (answer !== undefined) answers.set(order.orderId, answer)
  })
  await aim.killAll(
    async () => (await start()).child,
    (kill) => strike(cache, fate, kill),
  )
  await start()
  await paying
  const wrong = await countWrong(clients, () => server?.port, orders, answers)
  return { ...(await damageOf(databaseUrl, answers)), wrong, unanswered: ORDERS - answers.size }
}

/** Sends the order until it is answered. Undefined if the client has lost its patience. */
async function pay(
  clients: Clients,
  portOf: () => number | undefined,
  order: Order,
): Promise<Answer | undefined> {
  for (let waitedMs = 0; waitedMs < PATIENCE_MS; ) {
    const startedAt = performance.now()
    const answer = await clients.post(portOf() ?? 1, order).catch((error: unknown) => error)
    if (isReceipt(answer)) return answer
    await new Promise((resolve) => setTimeout(resolve, RETRY_MS))
    if (Reflect.get(Object(answer), 'code') !== 'ECONNREFUSED') {
      waitedMs += performance.now() - startedAt
    }
  }
  return undefined
}

const isReceipt = (answer: unknown): answer is Answer =>
  Reflect.get(Object(answer), 'status') === 201

async function countWrong(
  clients: Clients,
  portOf: () => number | undefined,
  orders: readonly Order[],
  answers: ReadonlyMap<string, Answer>,
): Promise<number> {
  let wrong = 0
  await inLanes(orders, WIDTH, async (order) => {
    const first = answers.get(order.orderId)
    if (first === undefined) return
    const again = await pay(clients, portOf, order)
    if (again?.body !== first.body) wrong += 1
  })
  return wrong
}

const COUNT = 'select order_id as id, count(*)::int as effects from effects group by order_id'

async function damageOf(
  databaseUrl: string,
  answers: ReadonlyMap<string, Answer>,
): Promise<Pick<HttpDamage, 'lost' | 'doubled'>> {
  const { rows } = await withPool(databaseUrl, (pool) =>
    pool.query<{ id: string; effects: number }>(COUNT),
  )
  const paid = new Set(rows.map(({ id }) => id))
  return {
    lost: [...answers.keys()].filter((id) => !paid.has(id)).length,
    doubled: rows.filter(({ effects }) => effects > 1).length,
  }
}
