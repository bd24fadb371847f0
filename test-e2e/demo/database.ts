import type { Pool } from 'pg'

const ACCOUNTS = 10

/** Opening balance of an account, in cents. */
const OPENING = 1_000_000

// Nothing here hides a double charge: "charges" has no key.
const TABLES = `
  create table accounts (id int primary key, balance bigint not null);
  create table orders (id int primary key, account_id int not null, cents int not null);
  create table charges (order_id int not null, cents int not null);
  create index on charges (order_id)`

const ORDERS = `
  insert into orders (id, account_id, cents)
  select n, n % $2, 100 + floor(random() * 9900) from generate_series(1, $1::int) as n`

export async function createOrders(pool: Pool, events: number): Promise<void> {
  await pool.query(TABLES)
  await pool.query('insert into accounts select n, $2 from generate_series(0, $1::int - 1) as n', [
    ACCOUNTS,
    OPENING,
  ])
  await pool.query(ORDERS, [events, ACCOUNTS])
}

export async function countCharged(pool: Pool): Promise<number> {
  const { rows } = await pool.query('select count(distinct order_id)::int as charged from charges')
  return rows[0].charged
}

/** The result of a run in the database, counted by order. */
export interface Ledger {
  readonly events: number
  readonly effects: number
  readonly lost: number
  readonly doubled: number
  /** Doubled orders that the producer sent once: the broker delivered them again. */
  readonly doubledByBroker: number
  readonly accounts: number
  readonly wrongAccounts: number
  /** What was taken from the accounts beyond the orders, in cents. */
  readonly excessCents: number
}

const CHARGES = `
  with charged as (
    select orders.id, count(charges.order_id)::int as times
    from orders left join charges on charges.order_id = orders.id
    group by orders.id
  )
  select count(*)::int as events, sum(times)::int as effects,
    count(*) filter (where times = 0)::int as lost,
    count(*) filter (where times > 1)::int as doubled,
    count(*) filter (where times > 1 and id <> all ($1))::int as "doubledByBroker"
  from charged`

const BALANCES = `
  with due as (
    select accounts.id, balance, $1 - coalesce(sum(cents), 0) as right_balance
    from accounts left join orders on orders.account_id = accounts.id
    group by accounts.id
  )
  select count(*)::int as accounts,
    count(*) filter (where balance <> right_balance)::int as "wrongAccounts",
    sum(right_balance - balance)::int as "excessCents"
  from due`

export async function audit(pool: Pool, sentTwice: readonly number[]): Promise<Ledger> {
  const charges = await pool.query(CHARGES, [sentTwice])
  const balances = await pool.query(BALANCES, [OPENING])
  return { ...charges.rows[0], ...balances.rows[0] }
}
