import { type Delivery, type Guard, RetryableError, type Settlement } from '@onceward/core'
import { database, turnOf, until } from '@onceward/testing'
import { installedPostgres, type PostgresServer, postgresOf } from '@onceward/testing/servers'
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest'
import type { Run } from './fixtures/clients.ts'
import { DRIVERS, type Guards, order } from './fixtures/guards.ts'
import { migrate } from './operators/migrate.ts'

// Red when a statement of onceward runs under the role or the settings that a handler or another user of the pool left.

/** Everything that an unqualified name of our statements could mean, in a schema that comes before pg_catalog. */
const HOSTILE = `
create schema hostile;
create function hostile.now() returns timestamptz language sql as $$ select timestamptz 'epoch' $$;
create function hostile.clock_timestamp() returns timestamptz language sql as $$ select timestamptz 'epoch' $$;
create function hostile.set_config(text, text, boolean) returns text language sql as $$ select 'hostile' $$;
create function hostile.current_setting(text) returns text language sql as $$ select '1' $$;
create function hostile.hashtextextended(text, bigint) returns bigint language sql as $$ select 1 / 0::bigint $$;
create function hostile.pg_backend_pid() returns integer language sql as $$ select 0 $$;
create function hostile.differ(uuid, uuid) returns boolean language sql as $$ select false $$;
create operator hostile.= (leftarg = uuid, rightarg = uuid, function = hostile.differ);
create function hostile.differ("char", "char") returns boolean language sql as $$ select false $$;
create operator hostile.= (leftarg = "char", rightarg = "char", function = hostile.differ);
create function hostile.differ(text, text) returns boolean language sql as $$ select false $$;
create operator hostile.= (leftarg = text, rightarg = text, function = hostile.differ);
create function hostile.differ(integer, integer) returns boolean language sql as $$ select false $$;
create operator hostile.= (leftarg = integer, rightarg = integer, function = hostile.differ);
create domain hostile.text as integer;
create domain hostile.uuid as integer;
create domain hostile.json as integer;
create table hostile.processed_events (event_id integer);
grant usage on schema hostile to public`

const SETTINGS: readonly (readonly [name: string, value: string])[] = [
  ['role', 'tenant'],
  ['search_path', 'hostile, pg_catalog'],
  ['synchronous_commit', 'off'],
  ['statement_timeout', '500'],
  ['lock_timeout', '1'],
  ['row_security', 'off'],
  ['standard_conforming_strings', 'off'],
  ['client_encoding', 'LATIN1'],
  ['datestyle', 'German'],
  ['intervalstyle', 'sql_standard'],
  ['timezone', 'Asia/Kathmandu'],
  ['bytea_output', 'escape'],
  ['session_replication_role', 'replica'],
  ['default_transaction_read_only', 'on'],
  ['default_transaction_isolation', 'serializable'],
  ['default_transaction_deferrable', 'on'],
  ['quote_all_identifiers', 'on'],
  ['array_nulls', 'off'],
  ['app.tenant', 'acme'],
]

/** How a handler changes a setting. */
const SCOPES: Readonly<Record<string, (name: string, value: string) => string>> = {
  local: (name, value) =>
    name === 'search_path' ? `set local search_path = ${value}` : `set local ${name} = '${value}'`,
  session: (name, value) =>
    name === 'search_path' ? `set search_path = ${value}` : `set ${name} = '${value}'`,
  'by set_config': (name, value) => `select pg_catalog.set_config('${name}', '${value}', true)`,
  'in a trigger': (name, value) => `insert into public.changes values ('${name}', '${value}')`,
}

const OBJECTS = `
create table effects (key text, tenant text, synchronous_commit text);
create table changes (name text, value text);
grant all on effects, changes to public;
create function change_too() returns trigger language plpgsql as
  $$ begin perform pg_catalog.set_config(new.name, new.value, true); return new; end $$;
create trigger changing after insert on changes for each row execute function change_too();
create function at_commit() returns trigger language plpgsql security definer as
  $$ begin
    update public.effects set synchronous_commit = pg_catalog.current_setting('synchronous_commit')
    where effects.key operator(pg_catalog.=) new.key;
    return new;
  end $$;
create constraint trigger committing after insert on effects
  deferrable initially deferred for each row execute function at_commit()`

const RESULT = { text: `é ' \\ \u{1F600}` }

async function prepare(admin: Run): Promise<void> {
  const [role] = await admin("select from pg_roles where rolname = 'tenant'")
  if (role === undefined) await admin('create role tenant').catch(() => undefined)
  await admin('grant usage on schema public to tenant')
  await admin(OBJECTS)
  await admin(HOSTILE)
}

/** Delivers until the event is processed. */
async function processed(guard: Guard, delivery: Delivery): Promise<Settlement> {
  return until(async () => {
    const settlement = await guard.process(delivery)
    expect(settlement.kind).not.toBe('dead-letter')
    return settlement.kind === 'ack' && settlement
  })
}

/** The handler of all tests: the first run fails where the order says so, and each run leaves what the order says. */
async function handle(
  run: Run,
  key: string,
  order: Readonly<Record<string, unknown>>,
  isFirst: boolean,
) {
  const leaving = order['leaves']
  if (typeof leaving === 'string') await run(leaving)
  await run(
    "insert into public.effects values ($1, pg_catalog.current_setting('app.tenant', true), null)",
    [key],
  )
  if (order['fails'] === true && isFirst) throw new RetryableError('the first run fails')
  return RESULT
}

const OLD = await installedPostgres(15)
/** Where the machine has it, the oldest behaviour is checked too, with the scopes that differ on the wire. */
const PLACES = [
  ...DRIVERS.map((driver) => ({ ...driver, on: undefined, scopes: Object.keys(SCOPES) })),
  ...DRIVERS.filter(({ name }) => OLD !== undefined && name === 'pg').map((driver) => ({
    ...driver,
    on: OLD,
    scopes: ['local', 'session', 'in a trigger'],
  })),
].map((place) => ({ ...place, where: place.on === undefined ? place.name : `${place.name} on 15` }))

for (const [index, { connect, name, on, scopes, where }] of PLACES.entries()) {
  describe(
    `settings that a handler leaves, over ${where}`,
    turnOf(index, { of: PLACES.length }),
    () => {
      let guards: Guards
      let reconnect: () => Promise<void>
      let old: PostgresServer | undefined

      beforeAll(async () => {
        if (on !== undefined) old = await postgresOf(on)
        const url = (await old?.createDatabase()) ?? (await database()).url
        reconnect = async () => {
          guards = await connect({ url, max: 4 })
        }
        await reconnect()
        if (guards.pool !== undefined) await migrate(guards.pool)
        await prepare(guards.admin)
      })
      afterAll(async () => {
        await guards.close()
        await old?.stop()
      })
      // Each test has connections of its own, because handlers leave settings on them. PGlite has only one.
      afterEach(async () => {
        if (guards.pool === undefined) {
          await guards.admin('reset session authorization; reset role; reset all')
          return
        }
        await guards.close()
        await reconnect()
      })

      function newGuard(transaction: 'each' | 'batch'): Guard {
        return guards.make(
          ({ payload, key, attempt }, run) => handle(run, key, payload, attempt === 1),
          { transaction, concurrency: name === 'pglite' ? 1 : 2 },
        )
      }

      // PGlite has no timers, and knows no other encoding.
      const isLeftOut = (setting: string): boolean =>
        name === 'pglite' && /_timeout$|^client_encoding$/.test(setting)
      const own = Object.entries(SCOPES).filter(([scope]) => scopes.includes(scope))
      const cases = own.flatMap(([scope, text]) =>
        SETTINGS.filter(([setting]) => !isLeftOut(setting)).flatMap(([setting, value]) => ({
          scope,
          setting,
          leaves: text(setting, value),
        })),
      )

      describe.each(['each', 'batch'] as const)('transaction %s', (mode) => {
        it.each(cases)(
          '$setting, $scope: clean and troubled events end',
          async ({ leaves, setting }) => {
            const guard = newGuard(mode)
            const orders = [{ leaves }, { leaves, fails: true }, {}].map((fields) => order(fields))
            const first = await guard.processBatch(orders)
            expect(first.map(({ kind }) => kind)).toEqual(['ack', 'defer', 'ack'])
            for (const each of orders) {
              expect(await processed(guard, each)).toMatchObject({ by: expect.any(String) })
              expect(await guard.process(each)).toMatchObject({ by: 'duplicate', result: RESULT })
            }
            await guard.close()
            if (guards.pool === undefined)
              await guards.admin('reset session authorization; reset role; reset all')
            const keys = orders.map(({ headers }) => headers['idempotency-key'])
            const rows = await guards.admin(
              'select key, synchronous_commit from effects where key = any($1) order by key',
              [keys],
            )
            // Replicas run no triggers.
            const isReplica = setting === 'session_replication_role'
            const inForce = isReplica ? expect.toSatisfy(() => true) : 'on'
            expect(rows).toEqual(
              keys.toSorted().map((key) => ({ key, synchronous_commit: inForce })),
            )
            expect(
              await guards.admin('select from onceward.failed_events f where f.key = any($1)', [
                keys,
              ]),
            ).toEqual([])
          },
        )
      })

      // Red when what a connection had at its last transaction is believed although somebody else has used it since.
      it.runIf(name !== 'pglite')(
        'a bound that another user of the pool removed is set again',
        async () => {
          const { pool } = guards
          const names = ['statement_timeout', 'idle_in_transaction_session_timeout']
          const inForce = names.map((each) => `current_setting('${each}') as ${each}`).join()
          const seen: unknown[] = []
          let pid: unknown
          const guard = guards.make(
            async (_, run) => {
              const [row] = await run(`select pg_backend_pid() as pid, ${inForce}`)
              pid = row?.['pid']
              seen.push(names.map((each) => row?.[each]))
              return undefined
            },
            { deadlineMs: 5_000 },
          )
          /** As another user of the pool, who uses the connection of the last event last, so that it is lent next. */
          const setAll = async (value: string): Promise<void> => {
            const clients = await Promise.all(Array.from({ length: 4 }, () => pool?.connect()))
            const isLast = (client: unknown): number =>
              Number(Reflect.get(Object(client), 'processID') === pid)
            for (const client of clients.toSorted((a, b) => isLast(a) - isLast(b))) {
              await client?.query(names.map((each) => `set ${each} = '${value}'`).join(';'))
              client?.release()
            }
          }
          await setAll('1s')
          await guard.process(order())
          await guard.process(order())
          await setAll('0')
          await guard.process(order())
          expect(seen).toEqual([
            ['1s', '1s'],
            ['1s', '1s'],
            ['5s', '5s'],
          ])
          await guard.close()
        },
      )

      // Red when a transaction is begun or committed under a setting that another user of the pool has changed.
      it.runIf(name !== 'pglite').each(SETTINGS)(
        '%s = %s, set by another user of the pool: clean and troubled events end',
        async (setting, value) => {
          const { pool } = guards
          const guard = newGuard('each')
          await guard.process(order())
          const clients = await Promise.all(Array.from({ length: 4 }, () => pool?.connect()))
          for (const client of clients) {
            await client?.query(SCOPES['session']?.(setting, value) ?? '')
            client?.release()
          }
          const orders = [order(), order({ fails: true })]
          for (const each of orders)
            expect(await processed(guard, each)).toMatchObject({ kind: 'ack' })
          await guard.close()
          const keys = orders.map(({ headers }) => headers['idempotency-key'])
          const rows = await guards.admin(
            'select synchronous_commit from effects where key = any($1)',
            [keys],
          )
          // Replicas run no triggers.
          const inForce = setting === 'session_replication_role' ? null : 'on'
          expect(rows).toEqual(keys.map(() => ({ synchronous_commit: inForce })))
        },
      )

      // Red when a setting of one handler is there for the next one.
      it.each(['local', 'by set_config'])(
        'a tenant that is set %s is not seen by the next',
        async (scope) => {
          const guard = newGuard('batch')
          const tenants = ['a', undefined, 'b', undefined, undefined, 'c', undefined]
          const orders = tenants.map((tenant) =>
            order(tenant === undefined ? {} : { leaves: SCOPES[scope]?.('app.tenant', tenant) }),
          )
          const settled = await guard.processBatch(orders)
          expect(settled.map(({ kind }) => kind)).toEqual(tenants.map(() => 'ack'))
          const rows = await guards.admin("select key, nullif(tenant, '') as tenant from effects")
          const found = new Map(rows.map((row) => [row['key'], row['tenant'] ?? undefined]))
          expect(orders.map(({ headers }) => found.get(headers['idempotency-key']))).toEqual(
            tenants,
          )
          await guard.close()
        },
      )

      it('a batch whose handlers set nothing shares its transaction', async () => {
        const seen = new Set<unknown>()
        const guard = guards.make(
          async ({ key }, run) => {
            await run('insert into effects (key) values ($1) returning lower(key)', [key])
            const [row] = await run('select txid_current()::text as id')
            seen.add(row?.['id'])
            return undefined
          },
          { transaction: 'batch' },
        )
        await guard.processBatch([order(), order(), order()])
        expect(seen.size).toBe(1)
        await guard.close()
      })
    },
  )
}
