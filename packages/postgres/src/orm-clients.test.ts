import { drizzle as onPg } from 'drizzle-orm/node-postgres'
import { drizzle as onPostgresJs } from 'drizzle-orm/postgres-js'
import createKnex from 'knex'
import pg from 'pg'
import postgres from 'postgres'
import { afterAll, expect, test } from 'vitest'
import { drizzleInbox } from './drizzle.ts'
import { knexInbox } from './knex.ts'
import { mikroOrmInbox } from './mikro-orm.ts'
import { postgresJsInbox } from './postgres-js.ts'
import { prismaInbox } from './prisma.ts'
import { typeormInbox } from './typeorm.ts'

const SECRET = 'hunter2'
const connectionString = `postgres://app:${SECRET}@127.0.0.1:1/app`
const pool = new pg.Pool({ connectionString })
const knex = createKnex({ client: 'pg', connection: connectionString })
const sql = postgres(connectionString)
afterAll(() => Promise.all([pool.end(), knex.destroy(), sql.end()]))

const MYSQL = {
  ...{ createQueryRunner: () => undefined, getRepository: () => undefined },
  ...{ manager: {}, options: { type: 'mysql' } },
}
const PRISMA = {
  $transaction: () => undefined,
  $connect: () => undefined,
  $disconnect: () => undefined,
}
const transaction = {
  transaction: () => undefined,
  select: () => undefined,
  rollback: () => undefined,
  _: {},
}

// Red before: a TypeError at the first event, or a guard that commits a transaction of the user's.
test.each<[string, () => unknown, string]>([
  ['a url for Drizzle', () => drizzleInbox(connectionString as never), 'a database of Drizzle'],
  ['a transaction of Drizzle', () => drizzleInbox(transaction as never), 'one of its transactions'],
  [
    'a Drizzle over one client of pg',
    () => drizzleInbox(onPg(new pg.Client({ connectionString })), { pool }),
    'over a pool of pg',
  ],
  ['a Drizzle without an own connection', () => drizzleInbox(onPg(pool)), '{ connectionString }'],
  ['two own connections', () => drizzleInbox(onPg(pool), { pool, connectionString }), 'either'],
  [
    'an unknown option for Drizzle over postgres.js',
    () => drizzleInbox(onPostgresJs(sql), { isolationLevel: 'serializable' } as never),
    'does not know "isolationLevel", did you mean "isolation"?',
  ],
  ['a pool for Knex', () => knexInbox(pool as never, { pool }), 'an instance of Knex'],
  [
    'a Knex of another database',
    () => knexInbox(createKnex({ client: 'sqlite3' as never, useNullAsDefault: true }), { pool }),
    "client: 'pg'",
  ],
  ['a Knex without an own connection', () => knexInbox(knex, {}), '{ connectionString }'],
  [
    'one client as own pool',
    () => knexInbox(knex, { pool: new pg.Client() as never }),
    'a pool of pg',
  ],
  ['a pool for Prisma', () => prismaInbox(pool as never, { pool }), 'a client of Prisma'],
  [
    'a transaction of Prisma',
    () => prismaInbox({ $transaction: () => undefined } as never, { pool }),
    'a client of Prisma',
  ],
  [
    'a pool size of 0',
    () => prismaInbox(PRISMA as never, { pool, poolSize: 0 }),
    '`poolSize` to be a positive integer',
  ],
  ['a pool for TypeORM', () => typeormInbox(pool as never, { pool }), 'a DataSource of TypeORM'],
  [
    'a DataSource of another database',
    () => typeormInbox(MYSQL as never, { pool }),
    'of type `postgres`',
  ],
  [
    'an EntityManager for MikroORM',
    () => mikroOrmInbox({ fork: () => undefined } as never, { pool }),
    'an instance of MikroORM',
  ],
  ['a pool for postgres.js', () => postgresJsInbox(pool as never), 'postgres()'],
  ['a wrong isolation', () => postgresJsInbox(sql, { isolation: 'none' as never }), 'isolation'],
])('%s is refused with what to write, and no secret is shown', (_, make, advice) => {
  let error: unknown
  try {
    make()
  } catch (thrown) {
    error = thrown
  }
  expect(error).toMatchObject({ code: 'ONCEWARD_CONFIGURATION' })
  expect(String(error)).toContain(advice)
  expect(String(error)).not.toContain(SECRET)
})
