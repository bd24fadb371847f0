import type { Testbed } from '../support/testbed.ts'
import { ACCOUNTS, isFatal, type Plan } from './plan.ts'

/** The state of the database and of the dead-letter queue after a round. */
export interface Ledger {
  /** Events without an effect that should have one. */
  readonly lost: readonly string[]
  /** Events with more effects than they should have. */
  readonly doubled: readonly string[]
  /** Accounts whose balance is not the sum of what was charged to them. */
  readonly wrongBalances: readonly string[]
  /** Events whose dead letter should be recorded and published and is not, and those with a dead letter too many. */
  readonly wrongDead: readonly string[]
  readonly dead: number
}

export async function openLedger(testbed: Testbed): Promise<void> {
  await testbed.pool.query(
    'insert into balances select account, 0 from generate_series(0, $1) account',
    [ACCOUNTS - 1],
  )
}

export async function audit(testbed: Testbed, plan: Plan): Promise<Ledger> {
  const effects = await testbed.effects()
  const alive = plan.events.filter((event) => !isFatal(event))
  const dead = plan.events.filter(isFatal).map(({ id }) => id)
  return {
    lost: alive.filter(({ id }) => effects[id] === undefined).map(({ id }) => id),
    doubled: plan.events
      .filter((event) => (effects[event.id] ?? 0) > (isFatal(event) ? 0 : 1))
      .map(({ id }) => id),
    wrongBalances: await wrongBalances(testbed, plan),
    wrongDead: await wrongDead(testbed, dead),
    dead: dead.length,
  }
}

async function wrongBalances(testbed: Testbed, plan: Plan): Promise<readonly string[]> {
  const expected = new Map<number, number>()
  for (const { charge } of plan.events.filter((event) => !isFatal(event))) {
    if (charge === undefined) continue
    expected.set(charge.account, (expected.get(charge.account) ?? 0) + charge.cents)
  }
  const { rows } = await testbed.pool.query<{ account: number; cents: string }>(
    'select account, cents from balances',
  )
  return rows
    .filter(({ account, cents }) => Number(cents) !== (expected.get(account) ?? 0))
    .map(({ account }) => String(account))
}

/**
 * The expected dead events that are not recorded or not published, and the other way round. A dead letter may be
 * published twice, if the worker dies between the broker's confirmation and the record of it.
 */
export async function wrongDead(
  testbed: Testbed,
  expected: readonly string[],
): Promise<readonly string[]> {
  const troubles = await testbed.troubles()
  const recorded = troubles.filter(({ state, published }) => state === 'x' && published)
  const letters = (await testbed.queue?.deadLetters()) ?? []
  return [recorded, letters].flatMap((found) => {
    const ids = found.map(({ id }) => id)
    const missing = expected.filter((id) => !ids.includes(id))
    return [...missing, ...ids.filter((id) => !expected.includes(id))]
  })
}

export const isExact = ({ lost, doubled, wrongBalances, wrongDead }: Ledger): boolean =>
  [lost, doubled, wrongBalances, wrongDead].every((wrong) => wrong.length === 0)
