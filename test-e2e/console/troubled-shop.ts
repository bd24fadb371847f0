import { createGuard, FatalError, type Guard } from '@onceward/core'
import { toDelivery } from '@onceward/core/memory'
import { migrate } from '@onceward/postgres'
import { pgInbox } from '@onceward/postgres/pg'
import pg from 'pg'

interface Order {
  readonly orderId: string
  readonly cents: number
  readonly account: string
}

type Handle = (order: Order) => void

const ignore = (): void => undefined
const silent = { debug: ignore, info: ignore, warn: ignore, error: ignore }
const source = { broker: 'sqs', queue: 'https://sqs.eu-west-1.amazonaws.com/123456789012/orders' }
const SOON = { attempts: 3, baseMs: 1, maxMs: 1 }
const LATER = { attempts: 10, baseMs: 900_000, maxMs: 900_000 }

const charge: Handle = ({ account }) => {
  if (account.startsWith('acc-')) throw new FatalError(`unknown account ${account}`)
  if (account === 'slow') throw new RangeError('the card network did not answer within 2000 ms')
}
const unreachable: Handle = () => {
  throw new Error('connect ECONNREFUSED 10.0.3.7:25')
}

/** The orders from `from` on, of accounts that are named by the number of the order. */
async function send(
  guard: Guard,
  { account = () => 'acme', count, from = 0 }: Batch,
): Promise<void> {
  const orders = Array.from({ length: count }, (_, at) => from + at)
  const deliveries = orders.map((n) =>
    toDelivery(
      { orderId: `order-${4_700 + n}`, cents: 1_250 + ((n * 137) % 9_000), account: account(n) },
      { source, messageId: `m-${n}`, deliveryCount: 1, headers: {} },
    ),
  )
  for (let at = 0; at < count; at += 50) await guard.processBatch(deliveries.slice(at, at + 50))
}

interface Batch {
  readonly count: number
  readonly from?: number
  readonly account?: (n: number) => string
}

/**
 * A shop with every trouble that the console tells apart, for its pictures. Real guards leave all of it and go on
 * running, but for that of `invoices`; only the times are moved into the past.
 *
 * @param url - Of an empty database.
 */
export async function troubledShop(url: string): Promise<AsyncDisposable> {
  const stack = new AsyncDisposableStack()
  const pool = stack.adopt(new pg.Pool({ connectionString: url }), (each) => each.end())
  pool.on('error', ignore)
  await migrate(pool)
  const open = (consumer: string, handle: Handle = ignore, retry = SOON): Guard => {
    const options = { consumer, inbox: pgInbox(pool), logger: silent, retry }
    const eventKey = ({ payload }: { readonly payload: unknown }) => (payload as Order).orderId
    const guard = createGuard<pg.PoolClient, unknown>({ ...options, eventKey }, ({ payload }) =>
      handle(payload as Order),
    )
    return stack.adopt(guard, (each) => each.close())
  }
  const billing = open('billing', charge)
  await send(billing, { count: 138, from: 100, account: (n) => `acc-${8_100 + n}` })
  for (const _attempt of [1, 2, 3])
    await send(billing, { count: 9, from: 60, account: () => 'slow' })
  for (const n of [1, 2, 3]) {
    const delivery = toDelivery({}, { source, messageId: `b-${n}` })
    await billing.process({ ...delivery, body: Buffer.from(`{"order${n}`) })
  }
  await send(open('shipping'), { count: 12 })
  await send(open('mails', unreachable, LATER), { count: 41, from: 20 })
  const invoices = open('invoices')
  await send(invoices, { count: 12 })
  await invoices.close()
  await moveTimes(pool)
  return stack
}

/** An hour of work, with a wave, and failures where its consumers had them. */
async function moveTimes(pool: pg.Pool): Promise<void> {
  await pool.query(`
    insert into onceward.processed_events (event_id, fingerprint, processed_at, consumer_id)
    select gen_random_uuid(), 0, now() - make_interval(secs => second), id
    from onceward.consumers, generate_series(1, 3600) as second
    where case name
      when 'billing' then second % 2 = 0 and (second > 1900 or second < 1500) and random() < 0.55 + 0.3 * sin(second / 500.0)
      when 'shipping' then random() < 0.7 + 0.25 * sin(second / 700.0)
      when 'mails' then second > 1080 and random() < 0.3
      else second > 840 and random() < 0.12 end;
    delete from onceward.processed_events where consumer_id = (select id from onceward.consumers where name = 'invoices')
      and processed_at > now() - interval '14 minutes';
    update onceward.failed_events f set
      last_failed_at = now() - make_interval(secs => spread),
      first_failed_at = now() - make_interval(secs => spread + case when attempt > 1 then 95 else 0 end),
      counted_at = now() - make_interval(secs => spread)
    from (
      select event_id, case when reason is null then 15 + 1060 * random()
        when reason = 'attempts-spent' then 1500 + 400 * random() else 40 + 12000 * random() ^ 3 end as spread
      from onceward.failed_events
    ) as moved where moved.event_id = f.event_id;
    update onceward.refused_messages set last_failed_at = now() - interval '2 hours', first_failed_at = now() - interval '3 hours';
    update onceward.consumers set seen_at = now() - interval '14 minutes', worker_ended_at = now() - interval '14 minutes'
    where name = 'invoices'`)
}
