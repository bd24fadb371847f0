import { createServer, type RequestListener, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { json } from 'node:stream/consumers'
import { nodeListener } from '@onceward/http/node'
import { createWebhookGuard, standardWebhook } from '@onceward/http/webhooks'
import { pgInbox } from '@onceward/postgres/pg'
import type { Pool } from 'pg'
import type { OrderPlaced } from '../order.ts'

const SECRET = Buffer.from('the secret of the accounting').toString('base64')

/** How workers reach the accounting. */
export interface AccountingAddress {
  readonly url: string
  readonly secret: string
}

/** Who was told of which payments, counted by order. */
export interface Announced {
  readonly announced: number
  /** Orders that were charged, and of which nobody was told. */
  readonly unannounced: number
  readonly announcedTwice: number
}

const COUNT = `
  with told as (
    select charged.order_id, count(announced.order_id)::int as times
    from (select distinct order_id from charges) charged
    left join announced on announced.order_id = charged.order_id
    group by charged.order_id
  )
  select coalesce(sum(times), 0)::int as announced,
    count(*) filter (where times = 0)::int as unannounced,
    count(*) filter (where times > 1)::int as "announcedTwice"
  from told`

/** The service that wants to know of every payment: a webhook, which enters what it is told. */
export class Accounting implements AsyncDisposable {
  readonly address: AccountingAddress
  readonly #server: Server
  readonly #pool: Pool
  readonly #hasOutbox: boolean

  private constructor(server: Server, pool: Pool, hasOutbox: boolean) {
    this.#server = server
    this.#pool = pool
    this.#hasOutbox = hasOutbox
    const { port } = server.address() as AddressInfo
    this.address = { url: `http://127.0.0.1:${port}/payments`, secret: SECRET }
  }

  static async open(pool: Pool, guard: 'with' | 'without'): Promise<Accounting> {
    // No constraint hides a second announcement.
    await pool.query('create table announced (order_id int not null)')
    await pool.query('create table handled (order_id int primary key)')
    const server = createServer(guard === 'with' ? guarded(pool) : trusting(pool))
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
    return new Accounting(server, pool, guard === 'with')
  }

  /** Messages that relays still have to publish. */
  async waiting(): Promise<number> {
    if (!this.#hasOutbox) return 0
    const { rows } = await this.#pool.query(
      'select count(*)::int as waiting from onceward.outbox_messages',
    )
    return rows[0].waiting
  }

  async audit(): Promise<Announced> {
    return (await this.#pool.query(COUNT)).rows[0]
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const closed = new Promise((resolve) => this.#server.close(resolve))
    this.#server.closeAllConnections()
    await closed
  }
}

const nothing = (): void => undefined
const errorsOnly = { debug: nothing, info: nothing, warn: nothing, error: console.error }

const ENTER = 'insert into announced values ($1)'

/** A relay may send a message twice: the guard drops the copy. */
function guarded(pool: Pool): RequestListener {
  const consumer = 'accounting'
  const guard = createWebhookGuard(
    { consumer, inbox: pgInbox(pool), verify: standardWebhook(SECRET), logger: errorsOnly },
    async ({ payload }, { tx }) => {
      await tx.query(ENTER, [(payload as OrderPlaced).orderId])
    },
  )
  return nodeListener(guard)
}

function trusting(pool: Pool): RequestListener {
  return (request, response) => {
    json(request)
      .then((payload) => pool.query(ENTER, [(payload as OrderPlaced).orderId]))
      .then(() => response.end())
      // A worker was killed in the middle of its request.
      .catch(() => response.writeHead(400).end())
  }
}
